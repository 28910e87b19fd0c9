"""Where the command begins, installed or as ``python -m gpustack``: Ctrl-C is one line from the first import on."""

import sys

from gpustack import isolation

INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        isolation.settle()
        from gpustack.cli import main as command  # noqa: PLC0415 - most of the start, during which somebody may lose patience

        command()
    except KeyboardInterrupt:
        sys.stderr.write("gpustack: interrupted\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
