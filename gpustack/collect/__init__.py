"""Running probes: child processes with a time limit each, the Pythons and images to examine, and their results."""
