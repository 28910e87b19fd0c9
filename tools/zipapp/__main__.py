"""``python -m tools.zipapp WHEEL OUT`` writes gpustack and what it needs as one file that Python runs."""

import sys
from pathlib import Path

from tools.zipapp import build

WHEEL, OUT = map(Path, sys.argv[1:])
build(WHEEL, OUT)
print(f"{OUT}: {OUT.stat().st_size / 1e6:.1f} MB")
