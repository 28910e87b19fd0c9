"""gpustack says what is wrong with a GPU stack, and what to type to fix it."""

__version__ = "0.1.0"
