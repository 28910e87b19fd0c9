"""What the doctor has to know of this site; gpustack reads the files beside this one and imports nothing."""
