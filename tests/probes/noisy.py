"""A stand-in probe whose library prints to standard output."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probes.host import Host


def probe(host: Host) -> dict[str, bool]:
    """Return a fact after making noise."""
    assert host.row["id"] == "x"
    print("printed by python", flush=True)  # noqa: T201 - the noise
    os.write(1, b"printed by the system\n")
    return {"loud": True}
