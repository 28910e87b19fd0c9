"""The JSON Schemas of our outputs, one file each; ``python -m gpustack.schemas`` makes them again from the types."""
