"""NVML for the probes that ask it: load and initialise it, and query a device fact by fact.

A query that fails (not supported, not in this driver, no permission, garbage) loses only its own fact, which is null
and has its reason in ``unavailable``. Once the host's time is up, nothing more is queried: a slow driver loses only
the last facts.
"""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Sequence, Tuple

    from probes.host import Facts, Host

    Write = Callable[[Any], Any]
    Said = Tuple[Any, Optional[str]]

SONAME = "libnvidia-ml.so.1"
VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t


def there(host: "Host") -> bool:
    """Return whether the library loads: False if it is nowhere, OSError with the loader's words where it is no good.

    nvidia-ml-py is not asked, since it says "not found" of a damaged file as well; so does the loader of a file that is
    for another processor.
    """
    try:
        host.library(SONAME)
    except OSError as error:
        loader = host.shared("loader.py")["Loader"](host)
        nowhere = str(error).startswith(SONAME) and "No such file" in str(error)
        if nowhere and not loader.search(SONAME, loader.program):
            return False
        raise
    return True


class Nvml:
    """NVML through nvidia-ml-py, for as long as the host has time."""

    def __init__(self, host: "Host") -> None:
        """Import nvidia-ml-py; raises if it is not installed."""
        self.library = host.module("pynvml")
        self.until = time.monotonic() + host.seconds

    def ask(self, name: str, *args: object, write: "Optional[Write]" = None) -> "Said":
        """Return (answer, None), or (None, why) where the question fails; ``write`` makes JSON of it."""
        if time.monotonic() > self.until:
            return None, "not asked: the time was up"
        try:
            answer = self.library.call(name, *args)
            return (write or plain)(answer), None
        except Exception as error:  # noqa: BLE001 - strangers' code: whatever it raises is the answer to this question
            return None, self.library.words(error)


def opened(host: "Host") -> "Optional[Nvml]":
    """Return NVML, initialised, or None if its library is nowhere; raises the loader's or NVML's error."""
    if not there(host):
        return None
    nvml = Nvml(host)
    nvml.library.call("nvmlInit")
    return nvml


class Reading:
    """What was read about one device, by the name of each fact: ``pcie.width`` is the width in pcie."""

    def __init__(self, nvml: Nvml, handle: object) -> None:
        """Ask this device."""
        self.nvml = nvml
        self.handle = handle
        self.said: "Facts" = {}
        self.unavailable: "Dict[str, str]" = {}

    def put(self, names: str, value: object, why: "Optional[str]" = None) -> None:
        """Record an answer under its name, several under theirs, or null and the reason why."""
        paths = names.split()
        parts: "Any" = value if len(paths) > 1 and not why else [value] * len(paths)
        for path, part in zip(paths, parts):
            self.said[path] = part
            self.unavailable.pop(path, None)
            if why:
                self.unavailable[path] = why

    def ask(self, names: str, function: str, *args: object, write: "Optional[Write]" = None) -> None:
        """Record what a function (nvmlDeviceGet…) says of this device."""
        self.put(names, *self.nvml.ask("nvmlDeviceGet" + function, self.handle, *args, write=write))

    def fields(self, wanted: "Sequence[Tuple[str, str]]", scope: int = 0) -> None:
        """Record the values of fields (NVML_FI_DEV_…), requested all at once; each may fail separately."""
        asked = [(self.nvml.library.value("NVML_FI_DEV_" + field, 0), scope) for _, field in wanted]
        values, why = self.nvml.ask("nvmlDeviceGetFieldValues", self.handle, asked, write=self._values)
        for (name, _), said in zip(wanted, values or [(None, why)] * len(wanted)):
            self.put(name, *said)

    def _values(self, values: "Any") -> "Sequence[Said]":
        return [self._value(one) for one in values]

    def _value(self, said: "Any") -> "Said":
        if said.nvmlReturn:
            return None, self.nvml.library.words(self.nvml.library.value("NVMLError")(said.nvmlReturn))
        if said.valueType >= len(VALUES):
            return None, "its type is unknown: %d" % said.valueType
        return getattr(said.value, VALUES[said.valueType]), None

    def facts(self) -> "Facts":
        """Return everything that was read, and why the rest was not."""
        facts: "Facts" = {"unavailable": self.unavailable}
        for path, value in self.said.items():
            group, _, name = path.rpartition(".")
            (facts.setdefault(group, {}) if group else facts)[name] = value
        return facts


def plain(value: object) -> object:
    """Return text for bytes, which older versions of nvidia-ml-py give, and everything else as it is."""
    return value.decode("utf-8") if isinstance(value, bytes) else value


def place(info: "Any") -> "Optional[str]":
    """Return the PCI address as the kernel writes it: 0000:00:06.0, where NVML pads the domain to eight digits.

    None for the one that a virtual machine gets for a switch that it cannot see (domain ffffffff).
    """
    domain, _, rest = str(plain(info.busId)).lower().partition(":")
    return None if domain == "ffffffff" else "%04x:%s" % (int(domain, 16), rest)
