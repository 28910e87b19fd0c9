"""The pytest plugin: ``@pytest.mark.gpustack(needs="pytorch")`` leaves a test out where that cannot work, and says why.

The machine is looked at when the first marked test is set up, once a process, in a child with a time limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import pytest

SECONDS = 30
MARK = (
    "gpustack(needs=None): the test needs a usable GPU and what `needs` names (an id of `gpustack stack`, an installed "
    "distribution, or several); where that does not work the test is skipped, or with --gpustack=fail fails with the "
    "diagnosis"
)
UNFIT = ("broken", "no-gpu", "unknown")
MOST_NEAR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What gpustack says of this machine: its report, or why there is none."""

    report: dict[str, Any]
    why_not: str = ""

    def unmet(self, needed: str | None) -> str | None:
        """Say in one line why a thing (None: a GPU) does not work here; None where it does."""
        if self.why_not:
            return f"gpustack could not tell: {self.why_not}"
        component = None if needed is None else _component(needed)
        if component is None:
            status = self.report["verdict"]["status"]
            return f"no usable GPU here ({status}){self._because(None)}" if status in UNFIT else None
        rows = [row for row in self.report["components"] if row["id"] == component]
        works = self.report["verdict"]["works"].get(component, None if rows else False)
        if works or (works is None and any(row["status"] == "present" for row in rows) and not self._unfit()):
            return None
        lost = [row for row in rows if row["status"] in {"failed", "unknown"} and not row["instances"]]
        if lost:
            return f"{needed} could not be examined: {lost[0]['reason'] or 'no reason was given'}"
        if not any(row["status"] == "present" for row in rows):
            return f"{needed} is not installed"
        return f"{needed} does not work here{self._because(component)}"

    def diagnosis(self) -> str:
        """Return the root causes at length: how we know, and the fix."""
        return "\n".join(line for finding in self._roots() for line in _told(finding))

    def _unfit(self) -> bool:
        return self.report["verdict"]["status"] in UNFIT

    def _because(self, component: str | None) -> str:
        roots = self._roots()
        ours = [one for one in roots if one["component"] == component] or roots
        return f": {ours[0]['title']} ({ours[0]['id']})" if ours else ""

    def _roots(self) -> list[dict[str, Any]]:
        keys = self.report["verdict"]["root_keys"] if self.report else []
        return [one for key in keys for one in self.report["findings"] if one["key"] == key]


class Unfit(pytest.fail.Exception):  # type: ignore[misc,name-defined] # pytest's own way to fail, made by a decorator
    """The needs of a test are not met, and --gpustack=fail is given."""


SEEN = pytest.StashKey[Seen]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --gpustack and --gpustack-from."""
    group = parser.getgroup("gpustack", "what a test needs from the GPU stack")
    group.addoption(
        "--gpustack",
        choices=("skip", "fail"),
        default="skip",
        help="What to do with a test marked gpustack whose needs are not met (default: skip).",
    )
    group.addoption(
        "--gpustack-from", metavar="PATH", help="Judge a machine recorded by gpustack snapshot instead of this one."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", MARK)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a marked test whose needs are not met; no wrong name hides behind a need that is not met."""
    for needed in tuple(_needs(item)):
        if SEEN not in item.config.stash:
            item.config.stash[SEEN] = _look(item.config.getoption("--gpustack-from"))
        seen = item.config.stash[SEEN]
        why = seen.unmet(needed)
        if why and item.config.getoption("--gpustack") == "fail":
            raise Unfit(f"gpustack: {why}\n{seen.diagnosis()}".rstrip(), pytrace=False)
        if why:
            pytest.skip(f"gpustack: {why}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Count our failure as one of the test: it is raised before the fixtures, which would meet the fault first."""
    outcome = yield
    if call.excinfo and isinstance(call.excinfo.value, Unfit):
        outcome.get_result().when = "call"


def _needs(item: pytest.Item) -> Iterator[str | None]:
    """Yield what the marks of a test name; None stands for a GPU alone."""
    for mark in item.iter_markers("gpustack"):
        named = mark.kwargs.get("needs", mark.args or None)
        if set(mark.kwargs) - {"needs"} or (mark.args and mark.kwargs):
            raise pytest.UsageError(f"{item.nodeid}: the marker gpustack takes only needs=…")
        for one in [named] if named is None or isinstance(named, str) else named:
            if one is not None:
                _component(one)
            yield one


def _component(needed: str) -> str | None:
    """Return the id of what a mark names, None for a distribution of this Python; raises UsageError otherwise."""
    names = _names()
    if needed.lower() in names:
        return names[needed.lower()]
    try:
        distribution(needed)
    except (PackageNotFoundError, ValueError):
        near = dict.fromkeys(names[one] for one in get_close_matches(needed.lower(), names, n=MOST_NEAR))
        meant = f"; did you mean {', '.join(near)}?" if near else ""
        said = (
            f"needs={needed!r}: neither a component that gpustack knows nor a distribution in {sys.executable}{meant}"
        )
        raise pytest.UsageError(said) from None
    return None


@cache
def _names() -> dict[str, str]:
    """Return the id of every system of the stack by the names that a mark may have for it."""
    from gpustack.matrix import Matrix  # noqa: PLC0415 - a session without a marked test reads nothing of gpustack
    from gpustack.model.policy import ALSO  # noqa: PLC0415

    return {**ALSO, **{name: name for name in Matrix().systems}}


def _look(recorded: str | None) -> Seen:
    """Ask the doctor about this Python on this machine, or about a recorded machine."""
    from gpustack.collect import isolation  # noqa: PLC0415 - a session without a marked test reads nothing of gpustack

    whom = ["--from", recorded] if recorded else ["--python", sys.executable]
    command = [*isolation.argv("gpustack"), "doctor", "--format", "json", "--fail-on", "never", *whom]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=SECONDS, check=False)
        return Seen(report=json.loads(done.stdout)) if done.returncode == 0 else _nothing(done.stderr)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return _nothing(str(error))


def _nothing(why: str) -> Seen:
    return Seen(report={}, why_not=" ".join(why.split()) or "no answer")


def _told(finding: dict[str, Any]) -> Iterator[str]:
    """Yield a finding line by line."""
    yield f"{finding['severity']}: {finding['title']} ({finding['id']})"
    if finding["detail"]:
        yield f"  {finding['detail']}"
    for one in finding["because"]:
        yield f"  - {one['component']} {one['fact']}: {one['value']}" + (
            f", from {one['source']}" * bool(one["source"])
        )
    fix = finding["fix"]
    if fix:
        yield f"  Fix: {fix['text']}"
        yield from (f"      {command}" for command in fix["commands"])
