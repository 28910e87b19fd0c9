"""How a child's end is described, and how Ctrl-C is handled while children are running."""

from __future__ import annotations

import signal

from gpustack.collect.subprocesses import death, last_line
from gpustack.interrupting import heeded


def test_the_end_of_a_child_is_said_in_words_however_odd_it_is() -> None:
    assert (death(-11), death(-99)) == ("was killed by SIGSEGV", "was killed by signal 99")
    assert last_line(b"first\n" + b"e" * 9999) == f"({'e' * 200})"


def test_once_children_are_done_ctrl_c_is_python_s_again() -> None:
    with heeded(lambda: None) as ear:
        assert ear is not None
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_ctrl_c_is_ignored_it_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with heeded(lambda: None) as ear:
            assert ear is None
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
