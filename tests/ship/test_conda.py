"""The recipe for conda-forge names the package's requirements, with the package's bounds."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from packaging.requirements import Requirement

import gpustack

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPO = Path(__file__).resolve().parents[2]
RECIPE = yaml.safe_load((REPO / "integrations/conda/recipe.yaml").read_text("utf-8"))
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))


def held(rows: list[str]) -> dict[str, frozenset[str]]:
    """Return names and bounds of requirements as either side writes them."""
    read = (
        Requirement(row.replace(" ", "", 1) if " " in row else row) for row in rows if not row.startswith("python ")
    )
    return {one.name: frozenset(map(str, one.specifier)) for one in read}


def test_the_recipe_needs_what_the_package_needs() -> None:
    needs = PROJECT["project"]["dependencies"]
    assert held(RECIPE["requirements"]["run"]) == held([one.partition(";")[0] for one in needs])
    assert held(RECIPE["requirements"]["run_constraints"]) == held(PROJECT["project"]["optional-dependencies"]["bench"])
    build = [one.partition(";")[0] for one in PROJECT["build-system"]["requires"]]
    assert held([one for one in RECIPE["requirements"]["host"] if one != "pip"]) == held(build)


def test_the_recipe_is_of_this_release_and_starts_the_same_program() -> None:
    assert RECIPE["context"]["version"] == gpustack.__version__
    started = [f"{name} = {place}" for name, place in PROJECT["project"]["scripts"].items()]
    assert RECIPE["build"]["python"]["entry_points"] == started
    assert RECIPE["about"]["license"] == PROJECT["project"]["license"]
