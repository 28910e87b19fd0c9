"""Ranges of versions as rows write them: PEP 440 specifiers, asked about whatever a component calls its version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import pep440

if TYPE_CHECKING:
    from packaging.version import Version


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Some versions of a component, such as ``>=9.8,<9.13``; an empty text is every version."""

    text: str

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Give the range; raises ValueError where the text is no specifier."""
        pep440.specifiers(text)
        return cls(text)

    def holds(self, version: str) -> bool:
        """Tell whether the version is in the range; False where it is no version at all."""
        found = pep440.version_of(version)
        return found is not None and pep440.specifiers(self.text).contains(found, prereleases=True)

    def __str__(self) -> str:
        return self.text or "any version"


def version_of(text: str) -> Version | None:
    """Give a version to compare: PEP 440 as it stands, of anything else (6.17.9-300.fc43) the numbers in front."""
    return pep440.version_of(text)
