"""The same files as a package for Debian and Ubuntu: ``python -m tools.zipapp WHEEL gpustack-doctor.deb``.

The dependencies are beside gpustack in ``/usr/lib/gpustack``, since Debian's typer is older than ours; so the package
depends only on Python, and neither changes nor hides a system package.
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import tempfile
from pathlib import Path

from tools.zipapp import REPO, files

NAME, HOME, EPOCH = "gpustack-doctor", "usr/lib/gpustack", 1580601600  # the date that hatchling gives files
PROGRAM = f"""#!/usr/bin/python3
import sys

sys.path[:1] = ["/{HOME}"]
from gpustack.__main__ import main

main()
"""
CONTROL = """Package: {name}
Version: {version}
Architecture: all
Maintainer: {maintainer}
Installed-Size: {size}
Depends: python3 (>= 3.10)
Section: admin
Priority: optional
Description: what is wrong with a GPU stack, and how to fix it
 gpustack examines the whole stack below a GPU program, from the GPU over the
 kernel module, the driver, CUDA and its libraries to PyTorch, JAX and vLLM. It
 names the layer at fault, the evidence for it and the commands that fix it.
 Nothing on the machine is changed, and no root is needed.
"""
SCRIPTS = {  # bytecode is compiled at installation and removed with the package
    "postinst": f'#!/bin/sh\nset -e\nif [ "$1" = configure ]; then\n    py3compile -p {NAME} /{HOME}\nfi\n',
    "prerm": f"#!/bin/sh\nset -e\npy3clean -p {NAME} /{HOME}\n",
}
FIELD = re.compile(
    r"^(Name|Version|License|License-Expression|Author|Author-[Ee]mail|Classifier): (?:License :: OSI Approved :: )?"
    r"([^:\n]+)$",
    re.MULTILINE,
)
APACHE = "The text is in /usr/share/common-licenses/Apache-2.0."
CHANGES = """{name} ({version}) unstable; urgency=medium

  * Release {version}: CHANGELOG.md.gz beside this file has its changes.

 -- {maintainer}  Sun, 02 Feb 2020 00:00:00 +0000
"""


def build(site: Path, out: Path) -> None:
    """Write the package from the files installed in a folder; the same files always give the same bytes."""
    (about,) = site.glob("gpustack_doctor-*.dist-info")
    who = os.environ.get("DEBFULLNAME", "The gpustack developers"), os.environ.get("DEBEMAIL", "root@localhost")
    words = {"name": NAME, "version": about.stem.split("-")[1], "maintainer": f"{who[0]} <{who[1]}>"}
    docs = f"usr/share/doc/{NAME}"
    held = {f"{HOME}/{name}": path.read_bytes() for name, path in files(site)}
    held |= {
        f"usr/share/man/man1/{one.name}.gz": _packed(one.read_bytes()) for one in (site / "share/man/man1").glob("*.1")
    }
    held |= {
        "usr/bin/gpustack": PROGRAM.encode(),
        f"{docs}/changelog.gz": _packed(CHANGES.format_map(words).encode()),
        f"{docs}/CHANGELOG.md.gz": _packed((REPO / "CHANGELOG.md").read_bytes()),
        f"{docs}/copyright": _licences(site).encode(),
    }
    words["size"] = str(sum(map(len, held.values())) // 1024)
    held |= {f"DEBIAN/{name}": text.encode() for name, text in SCRIPTS.items()}
    held["DEBIAN/control"] = CONTROL.format_map(words).encode()
    with tempfile.TemporaryDirectory() as made:
        for name, data in held.items():
            path = Path(made, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o755 if name in {"usr/bin/gpustack", *(f"DEBIAN/{one}" for one in SCRIPTS)} else 0o644)
        for path in (Path(made), *Path(made).rglob("*")):
            path.chmod(0o755 if path.is_dir() else path.stat().st_mode)
            os.utime(path, (EPOCH, EPOCH))
        command = ("dpkg-deb", "--root-owner-group", "-Zxz", "--build", made, str(out))
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
        )


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def _licences(site: Path) -> str:
    """Return the copyright and licence of each part, from each distribution's metadata and licence texts."""
    said = []
    for about in sorted(site.glob("*.dist-info")):
        head = (about / "METADATA").read_text("utf-8").partition("\n\n")[0]
        fields = {name.lower(): value for name, value in FIELD.findall(head)}
        kind = next((fields[name] for name in ("license-expression", "license", "classifier") if name in fields), "")
        said.append(
            f"{fields['name']} {fields['version']}, by {fields.get('author') or fields.get('author-email')}: {kind}"
        )
        texts = [one.read_text("utf-8") for one in sorted(about.rglob("LICEN[CS]E*"))]
        said += [APACHE if "Apache License" in one[:300] else one.strip() for one in texts]
    return "\n\n".join(said) + "\n"
