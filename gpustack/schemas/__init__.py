"""The JSON Schemas of our outputs, one file each; ``python -m gpustack.schemas`` makes them anew from the types."""
