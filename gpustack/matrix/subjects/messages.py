"""What programs and the kernel say when something is wrong: how each message is recognised and what it points to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from gpustack.model.reading import key
from gpustack.model.report import Row

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

TABLES = (
    *("messages_kernel", "messages_hardware", "messages_driver", "messages_library", "messages_framework"),
    *("messages_compiler", "messages_container", "messages_environment", "messages_harmless"),
)


# A look-behind; a space, which may be repeated; a set of letters or one of them, which is repeated without an end.
_PARTS = re.compile(
    r"(?P<behind>\(\?<[!=][^()]*\))| (?P<space>[?*+]?)"
    r"|(?P<one>\\.|\[\^?(?:\\.|[^\]\\]){1,200}\]|.)(?P<many>[*+]?)",
    re.DOTALL,
)
# How many letters in a row the expression of a row takes at most where the row sets no end: words and numbers, a set of
# letters as in a path, anything but some letters.
MOST_SPACE = MOST_OF_WORD = 40
MOST_OF_PATH, MOST_OF_LINE = 120, 400


def _part(found: re.Match[str]) -> str:
    if found["behind"]:
        return found["behind"].replace(" ", r"\s")
    if found["one"] is None:
        return f"\\s{{{0 if found['space'] in {'?', '*'} else 1},{MOST_SPACE}}}"
    if not found["many"]:
        return found[0]
    one = found["one"]
    wide = one.startswith("[^") or one in {".", r"\S"}
    most = MOST_OF_LINE if wide else MOST_OF_PATH if one.startswith("[") else MOST_OF_WORD
    return f"{one}{{{int(found['many'] == '+')},{most}}}"


@cache  # there are more of them than re itself keeps
def _compiled(match: str) -> re.Pattern[str]:
    return re.compile(_PARTS.sub(_part, match), re.IGNORECASE | re.MULTILINE)


def _texts(values: Mapping[str, object]) -> Mapping[str, str]:
    return {name: str(value) for name, value in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How something is said: a word that stands in it in lower case, and the expression that takes it apart.

    ``values`` are what it says without saying it, such as the number of an error that it spells out.
    """

    kind: str
    has: str
    match: str
    values: Mapping[str, str] = field(default_factory=dict, metadata=key("values", _texts))

    @property
    def stated(self) -> bool:
        """Whether people say it, and no program prints it."""
        return True

    def compiled(self) -> re.Pattern[str]:
        """Return the expression: case does not count, where it has a space a line may be wrapped, no repeat is endless.

        What stands before (a look-behind) has one width, so a space in it is one white space.
        """
        return _compiled(self.match)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Wording):
    """One message of a program or of the kernel, and what it means.

    ``finding`` is the id of the finding that it mostly leads to, None where that depends on everything else.
    """

    says: str
    source: str
    checked: str
    finding: str | None = None

    @property
    def stated(self) -> bool:
        """Whether people say it, and no program prints it."""
        return self.source.startswith(("wording", "facts of"))

    @property
    def row(self) -> Row:
        """The row as a report cites it."""
        return Row(table="messages", text=self.says, source=self.source, checked=self.checked)


def patterns(matrix: Matrix) -> tuple[Pattern, ...]:
    """Return every message that is known, in the order of the tables."""
    return tuple(one for table in TABLES for one in matrix.rows(table, "messages", Pattern))
