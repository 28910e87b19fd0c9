"""What can go wrong with us, as one small tree; what is wrong with the host is a finding, never an error.

GpustackError
├── UsageError       what was typed names nothing that exists, or contradicts itself        exit code 2
├── InputError       a file given to us is missing, unreadable or not what it must be       exit code 2
├── OutputError      the result could not be written where it was asked for                 exit code 2
├── NothingSeenError nothing could be looked at or measured                                 exit code 3
└── BrokenError      something of ours is wrong: a shipped file damaged, a promise not kept  exit code 3
"""


class GpustackError(Exception):
    """The root: one sentence for the user, and the exit code that goes with it."""

    exit_code = 3


class UsageError(GpustackError):
    """What was typed names nothing that exists, or contradicts itself."""

    exit_code = 2


class InputError(GpustackError):
    """A file given to us is missing, unreadable, or not what it must be."""

    exit_code = 2


class OutputError(GpustackError):
    """The result could not be written where it was asked for."""

    exit_code = 2


class NothingSeenError(GpustackError):
    """Nothing could be looked at or measured."""


class BrokenError(GpustackError):
    """Something of ours is wrong: a shipped file is damaged, or a promise inside the program was not kept."""
