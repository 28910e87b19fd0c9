"""gpustack for notebooks and test suites: the doctor and the check as functions, their results with types.

What is wrong with the machine is in the result, never an exception. Exceptions are those of ``gpustack.errors``:
UsageError for what contradicts itself or names no Python, InputError for a file that cannot be read.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from html import escape
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from gpustack import plugins, snapshots
from gpustack.diagnose import engine
from gpustack.errors import UsageError
from gpustack.imports import deadline, load
from gpustack.matrix import Matrix
from gpustack.model import policy as policies
from gpustack.model import report
from gpustack.model.facts import Facts
from gpustack.model.report import Purpose
from gpustack.report import renderer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from typing_extensions import Self

__all__ = ["CheckReport", "Report", "check", "doctor", "judge"]

Place: TypeAlias = str | PathLike[str]
Recorded: TypeAlias = "Place | Sequence[Place] | Mapping[str, object] | Facts"
For: TypeAlias = Literal["train", "infer", "build", "any"]
SECONDS, DEEP_SECONDS, READING_SECONDS, CHECK_SECONDS = 10.0, 60.0, 60.0, 60.0

WIDTH = 100  # letters
FRAME = '<iframe sandbox="allow-scripts" style="width:100%;height:40em;border:0" srcdoc="{}"></iframe>'


class Shown:
    """What every result of the library can do; otherwise it is a report of our model."""

    __slots__ = ()

    @classmethod
    def of(cls, found: DataclassInstance) -> Self:
        """Return a report of the model as one that renders itself."""
        return cls(**{one.name: getattr(found, one.name) for one in fields(found)})

    def text(self, *, verbose: int = 0) -> str:
        """Return what the command prints: one screen; with ``verbose`` 1 the stack and all evidence, with 2 everything.

        >>> import gpustack
        >>> print(gpustack.judge("examples/driver-too-old.json").text().splitlines()[0][:8])
        ✗ BROKEN
        """
        form = "check" if isinstance(self, policies.CheckReport) else "text"
        return renderer(form)(self, verbose=verbose, width=WIDTH, colour=False, ascii=False, program="gpustack")

    def json(self) -> str:
        """Return the report as ``--format json`` writes it, nothing redacted; its schema is among ``gpustack/schemas``.

        >>> import gpustack, json
        >>> json.loads(gpustack.judge("examples/driver-too-old.json").json())["schema"]
        'gpustack.report/1'
        """
        return renderer("json")(self)

    def html(self) -> str:
        """Return the page of ``--format html``, without names of machines and people, serials, UUIDs and addresses.

        >>> import gpustack
        >>> gpustack.judge("examples/driver-too-old.json").html()[:15]
        '<!doctype html>'
        """
        import os  # noqa: PLC0415 - who runs this is asked for the page alone

        from gpustack.redaction import ourselves, redact  # noqa: PLC0415 - no other result needs it

        return renderer("html")(redact(self, ourselves(os.environ)))

    def _repr_html_(self) -> str:
        """Return the page in its own frame, so that its styles do not affect the notebook around it."""
        return FRAME.format(escape(self.html()))

    def __str__(self) -> str:
        return self.text()


class Report(Shown, report.Report):
    """What the doctor says of one machine: ``verdict``, ``findings``, ``components``, ``contracts`` and more.

    >>> import gpustack
    >>> report = gpustack.judge("examples/driver-too-old.json")
    >>> report.verdict.status.value, report.verdict.root_causes
    ('broken', ('driver-too-old-for-cuda-build',))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Report {self.verdict.status.value}: {', '.join(self.verdict.root_keys) or 'no cause'}>"


class CheckReport(Shown, policies.CheckReport):
    """A report compared with a policy: ``class_`` decides, ``why`` is the sentence behind it, ``policy`` its rules.

    >>> import gpustack
    >>> gpustack.check(snapshot="examples/driver-too-old.json").class_.value
    'bad-host'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<CheckReport {self.class_.value}: {self.why}>"


def doctor(
    *,
    python: Place | Sequence[Place] | None = None,
    deep: bool = False,
    all_envs: bool = False,
    purpose: For = "any",
    timeout: float | None = None,
) -> Report:
    """Return what is wrong with the GPU stack of this machine, as ``gpustack doctor`` says it.

    ``python`` is the Python whose packages are judged, as a program or a folder; without it the one that runs this.
    ``deep`` imports and runs the frameworks in children, ``all_envs`` judges every Python of the machine. ``timeout``
    is in seconds for the whole: 10, with ``deep`` or ``all_envs`` 60. Everything runs in children with time limits;
    nothing is changed, and no network is used.

    Raises UsageError for a Python that is not there.

    >>> import gpustack
    >>> gpustack.doctor().verdict.status.value in {"healthy", "degraded", "broken", "no-gpu", "unknown"}
    True
    """
    plugins.load()
    seconds = timeout or (DEEP_SECONDS if deep or all_envs else SECONDS)
    asked, pythons = _purpose(purpose), _pythons(python)
    return Report.of(engine.judge(_here(pythons, seconds, deep=deep, all_envs=all_envs), Matrix(), asked))


def judge(snapshot: Recorded, *, purpose: For = "any", timeout: float = READING_SECONDS) -> Report:
    """Return what is wrong with a machine that was recorded, as ``gpustack doctor --from`` says it.

    ``snapshot`` is a file or a folder, several of one machine, a decoded snapshot, or facts; a file may be a snapshot
    or what people paste (``nvidia-smi``, ``collect_env``, ``pip freeze``, ``dmesg``, a traceback). ``timeout`` is in
    seconds, for reading and judging.

    Raises InputError for what cannot be read, and for JSON that is not a snapshot.

    >>> import gpustack
    >>> report = gpustack.judge("examples/gpu-newer-than-build.json")
    >>> report.findings[0].id, report.findings[0].severity.value
    ('arch-not-in-build', 'error')
    """
    plugins.load()
    matrix, until = Matrix(), deadline.to_judge(timeout)
    asked, facts = _purpose(purpose), _recorded(snapshot, matrix, timeout)
    return Report.of(deadline.judged(lambda one: engine.judge(one, matrix, asked), facts, until))


def check(
    policy: Place | None = None,
    *,
    snapshot: Recorded | None = None,
    python: Place | Sequence[Place] | None = None,
    gpus: int | None = None,
    bench: bool = True,
    deep: bool = False,
    golden: Place | None = None,
    purpose: For | None = None,
    timeout: float = CHECK_SECONDS,
) -> CheckReport:
    """Return whether a machine may be used, and if not, whose fault it is, as ``gpustack check`` says it.

    ``policy`` is a file; without it the nearest ``gpustack.toml``, from the working folder upwards, else the defaults.
    ``snapshot`` is a recorded machine, as for ``judge``; without it this machine is examined, and where ``bench`` is
    true measured by the quick bench. ``gpus`` is how many GPUs there must be. ``golden`` is a snapshot that the machine
    must be like. ``purpose`` is what the policy says, else "any". ``timeout`` is in seconds for the whole.

    Raises InputError for a policy or a snapshot that cannot be read, and UsageError where ``snapshot`` is given
    together with ``python`` or ``deep``.

    >>> import gpustack
    >>> result = gpustack.check("integrations/gpustack.toml", snapshot="examples/driver-too-old.json")
    >>> result.class_.value, result.why.partition(":")[0]
    ('bad-host', 'The driver is too old for PyTorch 2.7.1+cu128')
    """
    plugins.load()
    from gpustack.library.checking import REPORT_SECONDS, Asked, checked  # noqa: PLC0415 - no other function needs it

    if snapshot is not None and (deep or python):
        raise UsageError("snapshot cannot be combined with python or deep: a recording is judged as it is")
    pythons = () if snapshot is not None else _pythons(python)
    asked = Asked(
        recorded=partial(_recorded, snapshot) if snapshot is not None else None,
        taken=lambda seconds: _here(pythons, seconds, deep=deep),
        pythons=pythons,
        gpus=(),
        count=gpus,
        deep=deep,
        bench=bench and snapshot is None,
        saved=None,
        golden=Path(golden) if golden is not None else None,
        purpose=purpose and _purpose(purpose).value,
        until=time.monotonic() + timeout - REPORT_SECONDS,
    )
    return CheckReport.of(checked(asked, Path(policy) if policy is not None else None))


def _here(pythons: Sequence[str], seconds: float, *, deep: bool, all_envs: bool = False) -> Facts:
    from gpustack.collect.probing import look  # noqa: PLC0415 - nobody needs it who judges what is recorded

    return plugins.noted(look(pythons=pythons, deep=deep, all_envs=all_envs, timeout=seconds))


def _pythons(python: Place | Sequence[Place] | None) -> tuple[str, ...]:
    """Return the Pythons to examine; an empty list would select none."""
    places = [sys.executable] if not python else [python] if isinstance(python, str | PathLike) else python
    return tuple(fspath(one) for one in places)


def _recorded(snapshot: Recorded, matrix: Matrix, seconds: float) -> Facts:
    """Return the facts of a recorded machine."""
    if isinstance(snapshot, Facts):
        return snapshot
    if isinstance(snapshot, Mapping):
        return snapshots.take(snapshot, "the snapshot")
    places = [snapshot] if isinstance(snapshot, str | PathLike) else snapshot
    stdin = sys.stdin.buffer if hasattr(sys.stdin, "buffer") else BytesIO()
    return plugins.noted(load([fspath(one) for one in places], stdin, matrix, deadline.to_read(seconds)))


def _purpose(word: str) -> Purpose:
    """Return the purpose with this name; raises UsageError for any other."""
    try:
        return Purpose(word)
    except ValueError as error:
        raise UsageError(f"purpose is {', '.join(one.value for one in Purpose)}, not {word!r}") from error
