"""Where the command begins, installed or as ``python -m gpustack``: Ctrl-C is one line from the first import on."""

import atexit
import gc
import sys

if sys.version_info < (3, 10):  # noqa: UP036 - pip asks for it; a checkout and a package of a system may meet an older one
    sys.exit(f"gpustack: Python 3.10 or newer is needed; this is Python {sys.version.split()[0]} ({sys.executable})")

from gpustack.collect import isolation

BROKEN, INTERRUPTED = 3, 130
EXAMINING = frozenset({"doctor", "stack", "snapshot"})
ELSEWHERE = ("--from", "--container", "--list-checks", "--help", "-h")  # nothing of this machine is examined


def main() -> None:
    """Run the command line."""
    gc.set_threshold(200_000, 20, 50)  # nearly all that is made is kept until the end,
    atexit.register(gc.freeze)  # where nobody has to walk over it once more
    try:
        isolation.settle()
        isolation.hold_clock()
        if EXAMINING.intersection(sys.argv[1:2]) and not any(one.startswith(ELSEWHERE) for one in sys.argv[2:]):
            from gpustack.collect.probing import begin  # noqa: PLC0415 - starting CUDA takes as long as all that follows

            begin()
        from gpustack.cli import main as command  # noqa: PLC0415 - most of the start, during which somebody may lose patience

        command()
    except OSError as error:  # a module of ours that cannot be opened
        sys.stderr.write(f"gpustack: {error.strerror or error} (ulimit -n shows the limit)\n")
        sys.exit(BROKEN)
    except KeyboardInterrupt:
        sys.stderr.write("gpustack: interrupted\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
