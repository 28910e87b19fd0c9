"""What the tests of faults share: the compiled stand-ins, and the healthy machine to compare each fault with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import sharing
from tests.faults import machine

if TYPE_CHECKING:
    from gpustack.model.facts import Facts
    from tests.faults.machine import Shop


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Return what compiles the stand-ins, each once."""
    return machine.open_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="session")
def well(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """Return the facts of a machine on which all stand-ins are healthy."""
    planted = tmp_path_factory.mktemp("well")
    return sharing.worked_out(
        tmp_path_factory, "the well machine", lambda: machine.look(machine.planted(shop, planted, ()))
    )
