"""gpustack tells what is wrong with a GPU stack, and what to type to mend it."""

__version__ = "0.1.0"
