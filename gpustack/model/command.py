"""Commands for a person to type: literal words of gpustack around quoted values that passed the check of their kind.

Only ``sh`` makes a ``Command``: its template is a literal in our code, and every value in it is a ``Word``, which only
a ``Kind`` makes. Nothing from an examined machine or a pasted text gets into a command in any other way.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NewType

from packaging.version import VERSION_PATTERN

Command = NewType("Command", str)  # a line that can be typed as is
Word = NewType("Word", str)  # a value in a command, quoted if a shell needs it, or the blank that a person fills in

NOTHING = Word("")
STEP = "# "  # marks an instruction, which is not a command
OTHER = "# or: "  # marks a command that can replace the one before it
_BARE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_DOUBLE = re.compile(r"[^\"$`\\!\n]+")  # what a shell leaves alone between double quotes


def sh(template: str, **words: Word | Command | Sequence[Word | Command]) -> Command:
    """Return the command from a template, a literal in our code, with a word for each field outside quotes.

    An empty word also removes the space before it.
    """
    if not words:
        return Command(template)
    held = {name: word if isinstance(word, str) else " ".join(word) for name, word in words.items()}
    for name in [name for name, word in held.items() if not word]:
        template = template.replace(f" {{{name}}}", f"{{{name}}}")
    return Command(template.format_map(held))


def code(template: str, **names: Word) -> Word:
    """Return a line of Python as one word, from a literal in our code and the names of modules in it."""
    return Word(quote(template.format_map(names)))


def either(*commands: Command) -> tuple[Command, ...]:
    """Return alternative commands: the first to be typed, the others marked as replacements for it."""
    steps = [one for one in commands if one.startswith(STEP)]
    typed = [one for one in commands if not one.startswith(STEP)]
    return (*typed[:1], *steps, *(Command(f"{OTHER}{one}") for one in typed[1:]))


def step(template: str, **words: Word | Command | Sequence[Word | Command]) -> Command:
    """Return a step that a person does by hand, in words; the advice shows it in its text (see ``apart``)."""
    return Command(f"{STEP}{sh(template, **words)}")


def apart(commands: Sequence[Command]) -> tuple[tuple[Command, ...], str]:
    """Return the commands that can be typed as is, and sentences for manual steps and alternatives."""
    typed = tuple(one for one in commands if not one.startswith(STEP))
    return typed, " ".join(_sentence(one) for one in commands if one.startswith(STEP))


def _sentence(command: Command) -> str:
    if command.startswith(OTHER):
        return f"Or: `{command.removeprefix(OTHER)}`."
    said = command.removeprefix(STEP)
    return f"{said[:1].upper()}{said[1:]}."


def quote(text: str) -> str:
    """Return a text as one shell word, in double quotes if these are enough, since Windows understands them too."""
    if _BARE.fullmatch(text):
        return text
    return f'"{text}"' if _DOUBLE.fullmatch(text) else shlex.quote(text)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value: its form, and the blank that takes its place in a command if a value does not match."""

    blank: str
    means: str
    form: str

    def __call__(self, value: object) -> Word:
        """Return the value as a word, or the blank if it is missing or does not match the form."""
        return Word(quote(str(value)) if self.holds(value) else self.blank)

    def holds(self, value: object) -> bool:
        """Return whether the value matches the form of this kind."""
        return value is not None and re.fullmatch(self.form, str(value), re.ASCII) is not None


def requirement(name: object, clauses: object = "") -> Word:
    """Return what pip should install as one word: a distribution, optional extras, and clauses such as ==2.9.*."""
    known = str(name) if _WITH_EXTRAS.fullmatch(str(name)) else DISTRIBUTION.blank
    return Word(quote(known + (str(clauses) if _CLAUSES.fullmatch(str(clauses)) else f"=={VERSION.blank}")))


def reread(text: object) -> Command | None:
    """Return a command from a child process or an older report, if it consists only of plain words."""
    try:
        words = shlex.split(str(text or ""))
    except ValueError:
        return None
    plain = bool(words) and all(_BARE.fullmatch(re.sub(r"[<>*\[\]]", "", word)) for word in words)
    return Command(" ".join(map(quote, words))) if plain else None


def for_python(command: Command, python: Word) -> Command:
    """Return a command that starts with any Python as one that starts with this Python."""
    start, space, rest = command.partition(" ")
    return Command(f"{python}{space}{rest}") if start == SOME_PYTHON else command


def blanks(commands: Sequence[Command]) -> Iterator[str]:
    """Yield what a person has to fill in, in words, for each blank in these commands."""
    words = {word for command in commands for word in re.findall(r"[A-Z_]+", command)}
    yield from dict.fromkeys(f"{one.blank} is {one.means}" for one in KINDS if one.means and one.blank in words)


_PCI = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
_GPU = rf"\d{{1,3}}|{_PCI}|(?:GPU|MIG)-[0-9a-fA-F-]{{1,40}}(?:/\d{{1,3}}){{0,2}}"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
_SERIES = r"\d{1,4}(?:\.\d{1,5}){0,3}\.\*"
_LETTERS = "\u00c0-\u024f\u0370-\u03ff\u0400-\u04ff\u3041-\u30ff\u4e00-\u9fff\uac00-\ud7a3"
_PATH = rf"(?![ -])[A-Za-z0-9_ /.+=:,@%~#^()\[\]{{}}\\{_LETTERS}-]{{1,400}}(?<! )"
_WITH_EXTRAS = re.compile(rf"{_NAME}(?:\[[a-z0-9-]{{1,30}}(?:,[a-z0-9-]{{1,30}}){{0,4}}\])?", re.ASCII)
_CLAUSE = r"(?:===?|~=|!=|[<>]=?)[0-9][0-9A-Za-z.!+_-]{0,60}|==\d{1,4}(?:\.\d{1,5}){0,3}\.\*"
_CLAUSES = re.compile(rf"(?:(?:{_CLAUSE})(?:,(?:{_CLAUSE})){{0,5}})?", re.ASCII)

PYTHON = Kind("python", "", _PATH)
PATH = Kind("FILE", "the path of the file or folder", _PATH)
DISTRIBUTION = Kind("PACKAGE", "the name of the package", _NAME)
VERSION = Kind("VERSION", "the version", rf"(?=[\w.!+-]{{1,60}}\Z)(?xi:{VERSION_PATTERN})|{_SERIES}")
BUILD_TAG = Kind("BUILD", "the build, such as cu128", r"cpu|xpu|cu(?:da)?\d{1,3}|rocm\d{1,2}(?:\.\d{1,2}){0,2}")
BRANCH = Kind("BRANCH", "the branch of the driver, such as 580", r"\d{3}")
ADDRESS = Kind("ADDRESS", "the address of the index", r"https://[\w.-]{1,100}(?:/[\w.+-]{1,100}){0,9}/?")
PCI = Kind("PCI_ADDRESS", "the PCI address of the GPU", _PCI)
GPU = Kind("INDEX", "the index of the GPU in nvidia-smi -L", rf"(?:{_GPU})(?:,(?:{_GPU})){{0,63}}")
NUMBER = Kind("NUMBER", "the number", r"\d{1,20}")
DOTTED = Kind("VERSION", "the version", r"\d{1,4}(?:[.-]\d{1,4}){0,3}")
GCC = Kind("GCC", "the major release of gcc that built the kernel", r"\d{1,2}")
PID = Kind("PID", "the process ID", r"\d{1,10}")
UNIT = Kind("UNIT", "the systemd unit", r"[A-Za-z0-9][\w:.@-]{0,200}\.(?:service|scope|slice|socket|mount|timer)")
CONTAINER = Kind("CONTAINER", "the name of the container", r"[A-Za-z0-9][\w.-]{0,127}")
KERNEL = Kind("$(uname -r)", "", r"[0-9][\w.+~-]{0,80}")
MODULE = Kind("MODULE", "the name of the module", r"[A-Za-z_]\w{0,60}(?:\.\w{1,60}){0,4}")
LIBRARY = Kind("LIBRARY", "the file name of the library", r"lib[\w+.-]{1,80}")
SYMBOL = Kind("VERSION", "the version", r"(?:GLIBC|GLIBCXX|CXXABI)_\d{1,2}(?:\.\d{1,3}){1,3}")
ARCH = Kind("ARCH", "the compute capability, such as 9.0", r"\d{1,2}\.\d[af]?")
GFX = Kind("GFX", "the architecture, such as gfx1030", r"gfx[0-9a-f]{3,4}")
VARIABLE = Kind("VARIABLE", "the name of the variable", r"[A-Z_][A-Z0-9_]{0,60}")
NAME = Kind("NAME", "the name", _NAME)
REBOOT = Command("sudo reboot")
ANY, HERE, SOME_PYTHON = Word("*"), Word("here"), PYTHON(None)
KINDS = tuple(one for one in list(globals().values()) if isinstance(one, Kind))
