"""The types that all rooms share: facts about machines, reports on them, measurements, and versions."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):  # noqa: ANN003, ANN202 - in typing since Python 3.11
        return staticmethod  # a decorator that changes nothing


__all__ = ["field", "record", "replace", "row"]

Kind = TypeVar("Kind")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def record(kind: type[Kind]) -> type[Kind]:
    """Make a class a frozen, slotted dataclass that takes its fields by name, and whose instances equal by value.

    The decorator of ``dataclasses`` compiles six methods of each class, which took a third of a start. This one
    compiles ``__init__`` alone, for the first instance.
    """
    made: type[Kind] = _made(kind, __eq__=_equal, __hash__=_hash)
    return made


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def row(kind: type[Kind]) -> type[Kind]:
    """Make a class a record whose instances equal only themselves, as the rows of a table do."""
    made: type[Kind] = _made(kind)
    return made


def _made(kind: Any, **equality: object) -> Any:  # noqa: ANN401 - any class
    shared = {"__repr__": _shown, "__reduce__": _reduced, "__setattr__": _refuse, "__delattr__": _refuse, **equality}
    for name in shared.keys() - vars(kind).keys():
        setattr(kind, name, shared[name])
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(kind)
    compared = [one for one in fields(made) if one.compare]
    made._compared = attrgetter(*(one.name for one in compared))  # noqa: SLF001 - its own
    made._hashed = attrgetter(*(one.name for one in compared if one.hash is not False))  # noqa: SLF001

    def begin(self: object, **values: object) -> None:
        made.__init__ = _compiled(made)
        made.__init__(self, **values)

    made.__init__ = begin
    return made


def _compiled(kind: Any) -> Callable[..., None]:  # noqa: ANN401
    """Return ``__init__`` as ``dataclasses`` writes it."""
    names: dict[str, Any] = {"_put": object.__setattr__, "_none": MISSING}
    given, lines = ["self", "*"], []
    for one in fields(kind):
        name, other = one.name, f"_of_{one.name}"
        made = one.default_factory is not MISSING
        names[other] = one.default_factory if made else one.default
        given.append(name if names[other] is MISSING else f"{name}={'_none' if made else other}")
        lines.append(f" _put(self, {name!r}, {f'{other}() if {name} is _none else {name}' if made else name})")
    lines += [" self.__post_init__()"] * hasattr(kind, "__post_init__")
    exec(f"def __init__({', '.join(given)}):\n" + "\n".join(lines), names)  # noqa: S102 - written here
    method: Callable[..., None] = names["__init__"]
    return method


def _equal(self: Any, other: Any) -> bool:  # noqa: ANN401
    return self._compared(self) == self._compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:  # noqa: ANN401
    return hash(self._hashed(self))


def _shown(self: Any) -> str:  # noqa: ANN401
    held = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(held)})"


def _reduced(self: Any) -> tuple[object, ...]:  # noqa: ANN401
    """Return how a copy is made, by ``pickle`` and ``copy``."""
    kind: Any = type(self)
    return partial(kind, **{one.name: getattr(self, one.name) for one in fields(self)}), ()


def _refuse(_self: object, name: str, *_value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")
