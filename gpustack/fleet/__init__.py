"""Many machines: collecting their snapshots, judging them together, and finding those that differ from the others."""
