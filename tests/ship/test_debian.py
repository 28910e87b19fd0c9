"""The package for Debian and Ubuntu: it ships its dependencies below its own folder, and builds reproducibly."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.zipapp import debian, install

REPO = Path(__file__).resolve().parents[2]
METADATA = "Name: {}\nVersion: 1.2.3\nAuthor: Somebody\nLicense-Expression: MIT\n\nLicense: of no field\n"
TOOL, LINTIAN = shutil.which("dpkg-deb") or "", shutil.which("lintian")
needs = pytest.mark.skipif(not TOOL, reason="dpkg-deb is not here")


def made(site: Path) -> Path:
    """Return a folder with a gpustack that prints its own command line."""
    (site / "gpustack").mkdir(parents=True)
    (site / "gpustack/__main__.py").write_text(
        "import sys\ndef main():\n    import other\n    print(other.SAYS, sys.argv[1:], __file__)\n"
    )
    (site / "gpustack/__init__.py").write_text("")
    (site / "other.py").write_text("SAYS = 'brought along'\n")
    (site / "share/man/man1").mkdir(parents=True)
    (site / "share/man/man1/gpustack.1").write_text(".TH gpustack 1\n")
    for name in ("gpustack_doctor", "other"):
        about = site / f"{name}-1.2.3.dist-info"
        (about / "licenses").mkdir(parents=True)
        (about / "METADATA").write_text(METADATA.format(name))
        (about / "licenses/LICENSE").write_text(f"The licence of {name}.\n")
    return site


@needs
def test_it_brings_what_it_needs_and_leaves_the_python_of_the_system_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBEMAIL", "us@example.org")
    site, package, again = made(tmp_path / "site"), tmp_path / "one.deb", tmp_path / "two.deb"
    debian.build(site, package)
    debian.build(site, again)
    assert package.read_bytes() == again.read_bytes()
    subprocess.run([TOOL, "-x", package, tmp_path / "root"], check=True)
    subprocess.run([TOOL, "-e", package, tmp_path / "about"], check=True)
    files = {str(one.relative_to(tmp_path / "root")) for one in (tmp_path / "root").rglob("*") if one.is_file()}
    outside = {one for one in files if not one.startswith("usr/lib/gpustack/")}
    docs = {f"usr/share/doc/gpustack-doctor/{name}" for name in ("changelog.gz", "CHANGELOG.md.gz", "copyright")}
    assert outside == {"usr/bin/gpustack", "usr/share/man/man1/gpustack.1.gz", *docs}
    control = (tmp_path / "about/control").read_text()
    assert "Version: 1.2.3\n" in control
    assert "Depends: python3 (>= 3.10)\n" in control
    assert "Maintainer: The gpustack developers <us@example.org>\n" in control
    copyright_ = (tmp_path / "root/usr/share/doc/gpustack-doctor/copyright").read_text()
    assert "other 1.2.3, by Somebody: MIT\n\nThe licence of other." in copyright_
    for script in ("postinst", "prerm"):
        subprocess.run(["/bin/sh", "-n", tmp_path / "about" / script], check=True)
        assert os.access(tmp_path / "about" / script, os.X_OK)
    program = (tmp_path / "root/usr/bin/gpustack").read_text().replace("/usr/lib", f"{tmp_path}/root/usr/lib")
    done = subprocess.run([sys.executable, "-I", "-c", program, "doctor"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("brought along ['doctor'] ")


@needs
@pytest.mark.packages
@pytest.mark.timeout(300)
def test_the_real_one_does_its_work_and_lintian_has_nothing_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBEMAIL", "us@gpustack.org")  # example.org is a name that lintian knows
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    subprocess.run(build, cwd=REPO, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    install(wheel, tmp_path / "site")
    package = tmp_path / "gpustack-doctor.deb"
    debian.build(tmp_path / "site", package)
    subprocess.run([TOOL, "-x", package, tmp_path / "root"], check=True)
    program = (tmp_path / "root/usr/bin/gpustack").read_text().replace("/usr/lib", f"{tmp_path}/root/usr/lib")
    asked = ("doctor", "-q", "--from", REPO / "examples/driver-too-old.json")
    done = subprocess.run([sys.executable, "-I", "-c", program, *asked], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("✗ BROKEN: The driver is too old for PyTorch"), done.stderr
    if LINTIAN:
        found = subprocess.run([LINTIAN, "--fail-on", "error,warning", package], capture_output=True, check=False)
        assert found.returncode == 0, found.stdout
