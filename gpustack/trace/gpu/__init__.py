"""The seven steps on a GPU through cuda-python, without a framework: the work is a child's, ``following`` listens.

``plan`` says which kernels and products a model becomes, as pure data; ``arena`` where its numbers lie; ``device``
runs them; ``story`` goes the seven steps once; ``figures`` repeats for medians afterwards; ``heard`` makes a trace of
what the child said.
"""

from gpustack.trace.gpu.following import follow

__all__ = ["follow"]
