"""What an unpacked image reveals: its Pythons as they would report them, in small trees that stand in for images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.told import Host, load

IMAGE, INERT, LOADER = load("image.py"), load("inert.py"), load("loader.py")


def put(root: Path, files: dict[str, str | bytes]) -> None:
    for path, text in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        if target.parent.name == "bin":
            target.chmod(0o755)


def host_at(root: Path, **environ: str) -> Host:
    made: Host = INERT["inert"](Host)(str(root), environ, 1.0)
    return made


def pythons(root: Path, **environ: str) -> list[dict[str, Any]]:
    host = host_at(root, **environ)
    host.row = {"place": "pythons"}
    found: list[dict[str, Any]] = IMAGE["probe"](host)
    return found


def one(root: Path, **environ: str) -> dict[str, Any]:
    (found,) = pythons(root, **environ)
    told: dict[str, Any] = found["interpreter"]
    return told


def test_debians_python_looks_into_its_own_folders(tmp_path: Path) -> None:
    status = "Package: python3.11-minimal\nVersion: 3.11.2-6+deb12u4\n"
    put(
        tmp_path,
        {
            "/usr/bin/python3.11": b"\x7fELF",
            "/usr/lib/python3.11/os.py": "",
            "/usr/lib/python3/dist-packages/six.py": "",
            "/usr/local/lib/python3.11/dist-packages/x.pth": "/opt/more\nimport os; os.abort()\n# no\n../beside\n\n",
            "/opt/more/y": "",
            "/usr/local/lib/python3.11/beside/z": "",
            "/root/.local/lib/python3.11/site-packages/mine": "",
            "/pp/q": "",
            "/var/lib/dpkg/status": status,
        },
    )
    told = one(tmp_path, PYTHONPATH="/pp:relative:/gone")
    assert told["version"] == "3.11.2"
    assert told["path"] == [
        "/pp",
        "/usr/lib/python3.11",
        "/root/.local/lib/python3.11/site-packages",
        "/usr/local/lib/python3.11/dist-packages",
        "/opt/more",
        "/usr/local/lib/python3.11/dist-packages/../beside",
        "/usr/lib/python3/dist-packages",
    ]


def test_red_hats_python_and_one_that_was_built_have_other_folders(tmp_path: Path) -> None:
    put(
        tmp_path / "red",
        {
            "/usr/bin/python3.9": b"\x7fELF",
            "/usr/lib64/python3.9/os.py": "",
            "/usr/lib64/python3.9/site-packages/a": "",
            "/usr/local/lib/python3.9/site-packages/b": "",
        },
    )
    told = one(tmp_path / "red")
    assert told["path"] == [
        "/usr/lib64/python3.9", "/usr/local/lib/python3.9/site-packages", "/usr/lib64/python3.9/site-packages",
    ]  # fmt: skip
    header = '#define PY_VERSION      "3.12.4"\n'
    put(
        tmp_path / "built",
        {
            "/usr/local/bin/python3.12": b"\x7fELF",
            "/usr/local/lib/python3.12/site-packages/a": "",
            "/usr/local/include/python3.12/patchlevel.h": header,
        },
    )
    told = one(tmp_path / "built")
    assert (told["version"], told["path"][-1]) == ("3.12.4", "/usr/local/lib/python3.12/site-packages")


def venv(settings: str = "") -> dict[str, str | bytes]:
    return {
        "/opt/venv/pyvenv.cfg": f"home = /usr/bin\nversion = 3.11.2\n{settings}",
        "/opt/venv/bin/python": b"\x7fELF",
        "/opt/venv/lib/python3.11/site-packages/a": "",
        "/usr/lib/python3.11/lib-dynload/x": "",
        "/usr/lib/python3/dist-packages/six.py": "",
    }


def test_a_venv_has_its_own_packages_and_its_bases_where_it_says_so(tmp_path: Path) -> None:
    put(tmp_path / "own", venv())
    own = ["/usr/lib/python3.11", "/usr/lib/python3.11/lib-dynload", "/opt/venv/lib/python3.11/site-packages"]
    assert one(tmp_path / "own")["path"] == own
    put(tmp_path / "both", venv("include-system-site-packages = true\n"))
    assert one(tmp_path / "both")["path"] == [*own, "/usr/lib/python3/dist-packages"]
    assert one(tmp_path / "both")["base_prefix"] == "/usr"


def test_condas_python_is_recognised_by_its_record(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "/opt/conda/conda-meta/python-3.11.9-h955ad1f_0.json": "{}",
            "/opt/conda/bin/python": b"\x7fELF",
            "/opt/conda/lib/python3.11/site-packages/a": "",
        },
    )
    (found,) = pythons(tmp_path)
    assert (found["kind"], found["version"], found["interpreter"]["prefix"]) == ("conda", "3.11.9", "/opt/conda")


def test_the_python_that_variables_name_comes_first_and_then_one_with_a_framework(tmp_path: Path) -> None:
    put(tmp_path, venv())
    put(tmp_path, {"/usr/bin/python3.11": b"\x7fELF", "/usr/lib/python3/dist-packages/torch/x": ""})
    put(tmp_path, {"/srv/v/pyvenv.cfg": "version = 3.11.2\nhome = /usr/bin", "/srv/v/bin/python": b"\x7fELF"})
    put(tmp_path, {"/srv/v/bin/python3": b"\x7fELF", "/srv/v/lib/python3.11/site-packages/b": ""})
    prefixes = ["/usr", "/opt/venv"]
    assert [found["prefix"] for found in pythons(tmp_path)] == prefixes
    assert [found["prefix"] for found in pythons(tmp_path, VIRTUAL_ENV="/opt/venv")] == ["/opt/venv", "/usr"]
    assert [found["prefix"] for found in pythons(tmp_path, PATH="/srv/v/bin:/usr/bin")][0] == "/srv/v"  # noqa: RUF015 - all are made


def test_a_python_without_a_version_or_a_base_says_nothing_of_itself(tmp_path: Path) -> None:
    put(tmp_path, {"/opt/venv/pyvenv.cfg": "home = /usr/bin\n", "/opt/venv/bin/python": b"\x7fELF"})
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to("/gone")
    (tmp_path / "venv/pyvenv.cfg").write_text("version = 3.11.2")
    assert [(found["broken"], found["interpreter"]) for found in pythons(tmp_path)] == [(None, None), ("/gone", None)]


@pytest.mark.parametrize(
    ("words", "version"),
    [
        (b"GNU C Library (Debian GLIBC 2.36-9+deb12u4) stable release version 2.36.\n", "2.36"),
        (b"GNU C Library (GNU libc) development release version 2.39.9000.", "2.39"),
        (b"GNU C Library without", None),
        (b"", None),
    ],
)
def test_the_c_library_is_recognised_by_its_own_words(tmp_path: Path, words: bytes, version: str | None) -> None:
    put(tmp_path, {"/lib64/libc.so.6": b"\0" * 5000 + words + b"\0" * 5000})
    host = host_at(tmp_path, NVIDIA_REQUIRE_CUDA="cuda>=12.4", OTHER="x")
    host.row = {"place": "about"}
    told = IMAGE["probe"](host)
    assert (told["glibc"], told["os"], told["machine"]) == (version, None, "")
    assert told["variables"] == {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}


def test_the_libcuda_that_an_image_brings_and_whether_the_toolkit_would_look_at_it(tmp_path: Path) -> None:
    put(tmp_path, {"/usr/local/cuda-12.4/compat/libcuda.so.550.54.15": b""})
    (tmp_path / "usr/local/cuda").symlink_to("cuda-12.4")
    (tmp_path / "usr/local/cuda/compat/libcuda.so.1").symlink_to("libcuda.so.550.54.15")
    host = host_at(tmp_path)
    host.row = {"place": "libcuda"}
    told = IMAGE["probe"](host)
    assert [(copy["release"], copy["kind"], copy["found_by"]) for copy in told["copies"]] == [
        ("550.54.15", "compat", "known folder")
    ]
    assert told["compat_folder"] is None
    put(tmp_path, {"/etc/ld.so.cache": b"", "/etc/ld.so.conf.d/x.conf": "/usr/local/cuda/compat\n"})
    assert IMAGE["probe"](host)["compat_folder"] == "/usr/local/cuda-12.4/compat"


def test_ld_so_conf_counts_in_an_image_alone_and_its_includes_end(tmp_path: Path) -> None:
    put(
        tmp_path,
        {"/etc/ld.so.conf": "include ld.so.conf.d/*.conf /etc/ld.so.conf\n# no\n/first  # why\n/first\nrelative\n"},
    )
    put(tmp_path, {"/etc/ld.so.conf.d/a.conf": "/second/\ninclude\n", "/etc/ld.so.conf.d/b.conf": "include b.conf\n"})
    assert LOADER["unread"](host_at(tmp_path)) == ["/first", "/second"]
    assert LOADER["unread"](Host(root=str(tmp_path))) == []
