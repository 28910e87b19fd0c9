"""Make a synthetic fleet from recorded machines: for tests, and for measuring how judging grows."""
