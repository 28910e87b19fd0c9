"""gpustack says what is wrong with a GPU stack, and what to type to fix it.

For notebooks and test suites: ``doctor()`` examines this machine, ``judge("machine.json")`` one that was recorded or
pasted, ``check()`` holds it against a policy. Nothing of them is imported before the first is called.
"""

__version__ = "0.1.0"
__all__ = ["CheckReport", "Report", "check", "doctor", "judge"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpustack.library import CheckReport, Report, check, doctor, judge


def __getattr__(name: str) -> object:
    """Return a function or a type of the library; raises AttributeError for any other name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - the command starts without it

    return getattr(import_module("gpustack.library"), name)  # by name: its own modules ask this one for the version


def __dir__() -> list[str]:
    """Return these names, and what every module has."""
    return sorted({*globals(), *__all__})
