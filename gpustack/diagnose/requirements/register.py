"""Every record of the findings that rows of requirements yield, by the id of the finding; plugins add theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.requirements import of_gpus, of_machine

if TYPE_CHECKING:
    from gpustack.diagnose.requirements.records import Record

RECORDS: dict[str, Record] = {**of_gpus.RECORDS, **of_machine.RECORDS}
