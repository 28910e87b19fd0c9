"""Make a synthetic fleet from recorded machines: for tests, and to measure how the cost of judging grows."""
