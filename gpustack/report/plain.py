"""JSON: what every command gives programs."""

from gpustack.model.plain import render

__all__ = ["render"]
