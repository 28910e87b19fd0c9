"""``python -m tools.zipapp WHEEL OUT`` writes gpustack and its dependencies as one file that Python runs, or a .deb."""

import sys
import tempfile
from pathlib import Path

from tools.zipapp import debian, install, pack

WHEEL, OUT = map(Path, sys.argv[1:])
with tempfile.TemporaryDirectory() as made:
    site = Path(made, "site")
    install(WHEEL, site)
    (debian.build if OUT.suffix == ".deb" else pack)(site, OUT)
print(f"{OUT}: {OUT.stat().st_size / 1e6:.1f} MB")
