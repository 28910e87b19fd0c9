"""The checks that CI runs, by name: ``nox`` for all, ``nox -s lint`` for one, ``nox -s tests-3.12`` for one Python."""

from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"


@nox.session
def lint(session: nox.Session) -> None:
    """Run ruff, mypy and pyright."""
    session.install("-c", "constraints.txt", "-e", ".[bench,dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("pyright", "--pythonpath", "python")


@nox.session(default=False)
def constraints(session: nox.Session) -> None:
    """Write constraints.txt: for each Python the newest versions of our dependencies, to be tested afterwards."""
    session.install("uv>=0.5")
    compiled = ("--universal", "--python-version", "3.10", "--extra", "bench", "--extra", "dev", "--no-annotate")
    session.env["UV_CUSTOM_COMPILE_COMMAND"] = "nox -s constraints"
    session.run("uv", "pip", "compile", *compiled, "--quiet", "--upgrade", "pyproject.toml", "-o", "constraints.txt")


@nox.session(default=False)
def audit(session: nox.Session) -> None:
    """Check our dependencies for known vulnerabilities; needs the network.

    Strict: a package that the index does not know fails the audit, since it was not checked.
    """
    session.install("-e", ".[bench]")
    frozen = Path(session.create_tmp(), "frozen.txt")
    frozen.write_text(str(session.run("python", "-m", "pip", "freeze", "--exclude-editable", silent=True)), "utf-8")
    session.install("pip-audit>=2.9")
    session.run("pip-audit", "--strict", "--no-deps", "--disable-pip", "-r", str(frozen), *session.posargs)


@nox.session(python=["3.10", "3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """Run the tests with branch coverage."""
    session.install("-c", "constraints.txt", "-e", ".[bench,dev]")
    session.run("pytest", "-n", "auto", "--cov", *session.posargs)
    session.run("python", "-m", "tools.cases", "measure")


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation site into dist/site; a broken link fails the build."""
    session.install("-c", "constraints.txt", "-e", ".[docs]")
    session.run("mkdocs", "build", "--strict", *session.posargs, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(default=False)
def zipapp(session: nox.Session) -> None:
    """Build gpustack with its dependencies as one file, dist/gpustack.pyz, and as a package for Debian and Ubuntu."""
    session.install("-c", "constraints.txt", "hatchling>=1.28", "uv>=0.5")
    session.run("python", "-m", "hatchling", "build", "-t", "wheel", "-d", "dist")
    wheel = max(Path("dist").glob("*.whl"), key=lambda one: one.stat().st_mtime)
    session.run("python", "-m", "tools.zipapp", str(wheel), "dist/gpustack.pyz")
    session.run("python", "dist/gpustack.pyz", "--version")
    session.run("python", "-m", "tools.zipapp", str(wheel), "dist/gpustack-doctor.deb")  # with dpkg-deb


@nox.session(default=False)
def wide(session: nox.Session) -> None:
    """Search for inputs that violate a property: new random ones, and many more than CI draws."""
    session.install("-c", "constraints.txt", "-e", ".[bench,dev]")
    session.run(
        "pytest", "-n", "auto", "-m", "hypothesis", "--hypothesis-profile", "wide", "--timeout", "0", *session.posargs
    )
    whole = {"GPUSTACK_WIDE": "1"}  # all inputs of which CI takes a sample
    session.run("pytest", "-n", "auto", "-m", "wide", "--timeout", "0", *session.posargs, env=whole)
    session.run("python", "-m", "tests.imports.measured", env=whole)


@nox.session(default=False)
def engines(session: nox.Session) -> None:
    """Collect a fleet through Slurm, kubectl, mpirun, ClusterShell and Ray on this machine; Slurm needs root."""
    session.install("-c", "constraints.txt", "-e", ".[bench,dev]", "ray>=2.45", "kmock>=0.8")
    session.run("pytest", "-m", "engines or slurm", "tests/fleet", "tests/integrations", *session.posargs)


@nox.session(default=False)
def matrix(session: nox.Session) -> None:
    """Regenerate the tables from the package index, print their coverage, and check random claims and the tests."""
    session.install("-c", "constraints.txt", "-e", ".[bench,dev]", "pip>=25.3")
    Path("dist").mkdir(exist_ok=True)
    named = [one for one in session.posargs if one != "all"]
    session.run("python", "-m", "tools.matrix", *session.posargs)
    session.run("python", "-m", "tools.matrix", "coverage", *named, "--kept", "--record", "tests/matrix/covered.csv")
    session.run("python", "-m", "tools.matrix", "spot", "--kept", "--most", "50", *named)  # a smaller --most wins
    session.run("python", "-m", "tools.matrix", "bundle", "dist/gpustack-data.zip")
    session.run("python", "-m", "tools.matrix", "page", "dist/matrix.html")
    session.run("pytest", "-n", "auto", "tests/matrix")
