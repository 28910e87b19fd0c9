"""What CI runs, by name: ``nox`` for all, ``nox -s lint`` for one, ``nox -s tests-3.12`` for one Python."""

import nox

nox.options.default_venv_backend = "venv"


@nox.session
def lint(session: nox.Session) -> None:
    """Ask ruff, mypy and pyright."""
    session.install("-e", ".[bench,dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("pyright", "--pythonpath", "python")


@nox.session(python=["3.10", "3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """Run the tests with branch coverage."""
    session.install("-e", ".[bench,dev]")
    session.run("pytest", "-n", "auto", "--cov", *session.posargs)
