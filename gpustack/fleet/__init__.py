"""Many machines: collecting what they say, judging them together, and finding who is unlike the others."""
