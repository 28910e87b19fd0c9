"""The command line as a module: ``python -m gpustack``."""

from gpustack.cli import main

if __name__ == "__main__":
    main()
