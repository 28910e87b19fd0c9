"""Running probes: programs in children with a time limit each, the Pythons and images to examine, and their results."""
