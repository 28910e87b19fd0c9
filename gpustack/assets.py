"""Where our own files lie, in a checkout or in an installed wheel: the only room that knows the difference."""

import os
import sys
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent
_SHIPPED = _PACKAGE / "_shipped"
_ROOT = _SHIPPED if _SHIPPED.is_dir() else _PACKAGE.parent

PROBES = _ROOT / "probes"
RUNNER = PROBES / "__main__.py"  # as a file: for a folder Python imports more before it runs anything of it
MICROBENCH = _ROOT / "microbench"
MATRIX = _ROOT / "compat-matrix"
EXAMPLES = _ROOT / "examples"
SCHEMAS = _PACKAGE / "schemas"


def toml(text: str) -> dict[str, Any]:
    """Return what a TOML text says; raises ValueError."""
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - a wheel has its tables as JSON
    else:
        import tomli as tomllib  # noqa: PLC0415
    return tomllib.loads(text)


def data() -> Path:
    """Return the folder of data that was installed apart from the program; it may not be there."""
    root = os.environ.get("XDG_DATA_HOME", "")
    folder = root if root.startswith("/") else os.path.expanduser("~/.local/share")  # noqa: PTH111 - where there is no home
    return Path(folder, "gpustack", "matrix")
