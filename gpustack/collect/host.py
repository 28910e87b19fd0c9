"""The machine in a few words, and its Pythons, from what the probes saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpustack.model.facts import Component, Environment, Host, JsonValue


def describe(components: Sequence[Component]) -> Host:
    """Give the machine in a few words; what no probe saw is None."""
    kernel = next((seen for seen in components if seen.id == "linux-kernel"), None)
    facts = kernel.facts if kernel else {}
    return Host(
        hostname=_text(facts.get("hostname")),
        os=_text(facts.get("os")),
        kernel=kernel.version if kernel else None,
        machine=_text(facts.get("machine")),
        virtualisation=_text(facts.get("virtualisation")),
        container=_text(facts.get("container")),
        wsl=facts.get("wsl") is True,
    )


def versions(environments: Sequence[Environment], components: Sequence[Component]) -> tuple[Environment, ...]:
    """Give the environments with the versions that their own Pythons told."""
    python = next((seen for seen in components if seen.id == "python"), None)
    told = {copy.environment: copy.version for copy in python.instances} if python else {}
    return tuple(replace(one, version=told.get(one.python)) for one in environments)


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
