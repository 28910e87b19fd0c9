"""The results of the library: reports that render as text, as JSON and, in a notebook, as the HTML report."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING

from gpustack.model import policy, report
from gpustack.report import renderer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from typing_extensions import Self

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
        form = "check" if isinstance(self, policy.CheckReport) else "text"
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


class CheckReport(Shown, policy.CheckReport):
    """A report compared with a policy: ``class_`` decides, ``why`` is the sentence behind it, ``policy`` its rules.

    >>> import gpustack
    >>> gpustack.check(snapshot="examples/driver-too-old.json").class_.value
    'bad-host'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<CheckReport {self.class_.value}: {self.why}>"
