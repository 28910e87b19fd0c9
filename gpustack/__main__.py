"""Where the command begins, installed or as ``python -m gpustack``: Ctrl-C is one line from the first import on."""

from __future__ import annotations

import sys
from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line."""
    try:
        from gpustack.cli import main as command  # noqa: PLC0415 - most of the start, during which somebody may lose patience

        command()
    except KeyboardInterrupt:
        sys.stderr.write("gpustack: interrupted\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
