"""PyTorch extensions against stand-ins for its libraries, compiled here: missing symbols are named, and judged.

The libraries only bear the names of torch's and export a few names of its C++; that real ones of 500 MB are read the
same way was verified by hand (docs/evidence/2026-11-21-packages).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpustack.collect import catalogue
from gpustack.collect.probing import look
from gpustack.diagnose.rules import extension_abi
from gpustack.matrix import Matrix
from gpustack.model.report import Severity
from tests.probes.stand_ins import built, distribution, python
from tests.told import ToldHost, load

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

PROBE = load("framework/torch_extensions.py")
HERE, GONE = "_ZN3c104warnEv", "_ZN3c105ErrorC2ENS_14SourceLocationESs"
MATRIX = Matrix()
SUFFIX = ".cpython-311-x86_64-linux-gnu.so"


def torch(site: Path, *, cuda: bool = True) -> Path:
    """Put a stand-in for torch into a site folder."""
    lib = site / "torch" / "lib"
    built(lib / "libc10.so", f"int {HERE}(void) {{ return 1; }}", "-Wl,-soname,libc10.so")
    built(lib / "libtorch_cpu.so", "int _ZN2at5emptyEv(void) { return 1; }", "-Wl,-soname,libtorch_cpu.so")
    if cuda:
        built(lib / "libtorch_cuda.so", "int only_here(void) { return 1; }", "-Wl,-soname,libtorch_cuda.so")
    (site / "torch" / "__init__.py").write_text("")
    (site / "torch" / "version.py").write_text("__version__ = '2.11.0+cu130'\ncuda = '13.0'\n")
    distribution(site, "torch", "2.11.0")
    return lib


def extension(path: Path, lib: Path, *names: str, needs: tuple[str, ...] = ("libc10.so", "libtorch_cpu.so")) -> Path:
    """Compile an extension that calls these names and needs these libraries."""
    source = "".join(f"int {name}(void);" for name in names)
    source += f"int PyInit_x(void) {{ return 0{''.join(f' + {name}()' for name in names)}; }}"
    libraries = ("-xnone", *(str(lib / one) for one in needs))
    return built(path, source, "-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all", *libraries)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    program, site = python(tmp_path_factory.mktemp("extensions") / "env")
    return program, site, torch(site)


def seen(program: Path) -> Facts:
    rows = [one for one in catalogue.load() if one.id in {"torch-extensions", "packages", "pytorch"}]
    return look(pythons=[str(program)], systems=rows, timeout=20)


def test_the_name_that_torch_does_not_offer_is_reported_and_a_good_extension_is_quiet(
    environment: tuple[Path, Path, Path],
) -> None:
    program, site, lib = environment
    good = extension(site / "xformers" / "_C.so", lib, HERE, "_ZN2at5emptyEv")
    assert not list(extension_abi.extension_abi_mismatch(seen(program), MATRIX))
    bad = extension(site / f"flash_attn_2_cuda{SUFFIX}", lib, HERE, GONE)
    try:
        facts = seen(program)
        (finding,) = extension_abi.extension_abi_mismatch(facts, MATRIX)
    finally:
        bad.unlink()
    assert finding.severity is Severity.ERROR
    assert finding.component == "flash-attn"
    assert finding.instance == f"flash-attn:{program}"
    assert "2.11.0" in finding.title
    assert GONE in finding.detail
    assert any(GONE in str(one.value) for one in finding.because)
    component = facts.find("torch-extensions")
    assert component is not None
    copies = {Path(one.path or "").name: one.facts for one in component.instances}
    assert copies[good.name]["missing"] == ()
    assert copies[good.name]["checked"] == 2
    assert copies[bad.name]["missing"] == (GONE,)


def test_torchvision_that_misses_a_name_is_a_mismatch_with_torch(environment: tuple[Path, Path, Path]) -> None:
    program, site, lib = environment
    record = distribution(site, "torchvision", "0.20.1")
    bad = extension(site / "torchvision" / "_C.so", lib, GONE)
    try:
        facts = seen(program)
    finally:
        bad.unlink()
        (record / "METADATA").unlink()
        record.rmdir()
    assert not list(extension_abi.extension_abi_mismatch(facts, MATRIX))
    (finding,) = extension_abi.torch_torchvision_mismatch(facts, MATRIX)
    assert finding.severity is Severity.ERROR
    assert GONE in finding.detail


def test_one_good_file_among_bad_ones_makes_it_a_warning(environment: tuple[Path, Path, Path]) -> None:
    program, site, lib = environment
    files = [extension(site / "vllm" / "_C.abi3.so", lib, HERE), extension(site / "vllm" / "_x.abi3.so", lib, GONE)]
    try:
        (finding,) = extension_abi.extension_abi_mismatch(seen(program), MATRIX)
    finally:
        for file in files:
            file.unlink()
    assert finding.severity is Severity.WARNING
    assert "Its other files match" in finding.detail


def look_at(site: Path) -> Any:  # noqa: ANN401 - what a probe gives
    host = load("host.py")["Host"]()
    here = {**host.interpreter(), "path": [str(site)]}
    host.interpreter = lambda: here
    return PROBE["probe"](host)


def test_a_library_of_torch_that_is_not_here_is_named_and_names_are_not_guessed(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    lib = torch(site)
    extension(site / "ours.so", lib, HERE, GONE, needs=("libc10.so", "libtorch_cuda.so"))
    (lib / "libtorch_cuda.so").unlink()
    (one,) = look_at(site)
    assert one["absent"] == ["libtorch_cuda.so"]
    assert one["missing"] == []
    assert "libtorch_cuda.so not found" in one["unread"]


def test_names_may_come_from_a_library_beside_the_extension(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    lib = torch(site)
    helper = built(site / "pack" / "libhelper.so", f"int {GONE}(void) {{ return 1; }}", "-Wl,-soname,libhelper.so")
    extension(site / "pack" / "_C.so", lib, GONE, needs=("libc10.so", str(helper)))
    assert [one["missing"] for one in look_at(site) if one["path"].endswith("_C.so")] == [[]]
    helper.unlink()
    (one,) = look_at(site)
    assert one["missing"] == []
    assert one["unread"] == "libhelper.so not found"


def test_where_there_is_no_torch_nothing_is_checked(tmp_path: Path) -> None:
    assert PROBE["probe"](ToldHost(python={"path": ["/env/site-packages"], "prefix": "/env"})) is None
    bare = tmp_path / "site-packages" / "torch"
    bare.mkdir(parents=True)
    (bare / "__init__.py").write_text("")
    assert look_at(bare.parent) is None


def test_torch_whose_names_cannot_be_read_blames_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    lib = torch(site)
    extension(site / "ours.so", lib, GONE)
    (lib / "libtorch_cpu.so").write_bytes(b"\x7fELF" + bytes(500))
    (one,) = look_at(site)
    assert one["missing"] == []
    assert one["unread"] == "the names that torch offers cannot be read"


def test_more_files_than_there_is_time_for_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site-packages"
    lib = torch(site)
    for number in range(3):
        extension(site / f"ours{number}.so", lib, HERE)
    monkeypatch.setitem(PROBE, "MOST_FILES", 2)
    *_, last = look_at(site)
    assert last["status"] == "unknown"
    assert "no time" in last["why"]
