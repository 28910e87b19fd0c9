"""A trial reports its outcome, whatever that is, and the numbers that it compares with are right."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.told import ToldHost, load

TRIAL = load("trial.py")


def test_the_known_product_is_the_product_and_small_enough_for_bfloat16() -> None:
    left, right, product = TRIAL["matrices"]()
    span = range(len(left))
    assert product == [[sum(left[i][k] * right[k][j] for k in span) for j in span] for i in span]
    assert max(abs(number) for row in product for number in row) <= 128
    assert len({number for row in product for number in row}) > 20
    swapped = [[sum(right[i][k] * left[k][j] for k in span) for j in span] for i in span]
    assert product not in (swapped, [list(column) for column in zip(*product, strict=True)])
    assert {number for row in left + right for number in row} == {-1, 0, 1}


def test_what_the_work_says_and_fills_in_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    def work(facts: dict[str, Any]) -> None:
        warnings.warn("sm_120 is not compatible", UserWarning, stacklevel=1)
        logging.getLogger("jax").error("plugin error", exc_info=RuntimeError("jaxlib is too old"))
        for _ in range(3):
            logging.getLogger("jax").warning("no GPU\n found: %d", 7)
        for number in range(50):
            logging.getLogger("jax").error("line %d", number)
        facts.update(ran=True, ok=True, device="cpu")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        facts = TRIAL["run"](ToldHost(), work)
    assert (facts["ran"], facts["ok"], facts["device"], facts["error"]) == (True, True, "cpu", None)
    assert "sm_120 is not compatible" in facts["said"][0]
    assert facts["said"][1:3] == ["plugin error: RuntimeError: jaxlib is too old", "no GPU found: 7"]
    assert len(facts["said"]) == 20
    assert facts["said"].count("no GPU found: 7") == 1
    assert "no GPU found: 7" in capsys.readouterr().err
    assert not any(isinstance(handler, TRIAL["Ear"]) for handler in logging.getLogger().handlers)


@pytest.mark.parametrize(
    "error", [RuntimeError("CUDA error: no kernel image"), SystemExit("leaving"), OSError("x" * 9999)]
)
def test_an_error_is_a_fact_in_its_own_words(error: BaseException) -> None:
    def work(facts: dict[str, Any]) -> None:
        facts.update(ran=True, ok=True)
        raise error

    facts = TRIAL["run"](ToldHost(), work)
    assert (facts["ran"], facts["ok"]) == (True, False)
    assert facts["error"].startswith(f"{type(error).__name__}: {error}"[:60])
    assert len(facts["error"]) <= 2000


def test_an_error_is_reported_by_its_first_line_and_its_words_by_all() -> None:
    class Wrapping(Exception):  # noqa: N818 - as torch.compile's is
        inner_exception = ValueError("\n  Cannot find gcc\n  at line 7")

    first, words = TRIAL["first"], TRIAL["words"]
    assert first(Wrapping("backend='inductor' raised:\nValueError")) == "ValueError: Cannot find gcc"
    assert first(RuntimeError("at 5:10:\n\n  x = y\nand more")) == "RuntimeError: at 5:10: x = y"
    assert first(RuntimeError()) == "RuntimeError: "
    deep, hidden, seen = KeyError("deep"), OSError("libnvvm.so: cannot open shared object file"), KeyError("seen")
    deep.__cause__ = hidden
    assert list(words(deep)) == ["KeyError: 'deep'", "OSError: libnvvm.so: cannot open shared object file"]
    seen.__context__ = hidden
    assert len(list(words(seen))) == 2
    seen.__suppress_context__ = True
    assert list(words(seen)) == ["KeyError: 'seen'"]
    looped = RuntimeError("round")
    looped.__cause__ = looped
    assert len(list(words(looped))) == 5


def test_an_error_whose_text_cannot_be_made_has_its_kind() -> None:
    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise ValueError

    assert TRIAL["first"](Mute()) == "Mute: its text cannot be read (ValueError)"


def test_the_step_at_which_it_failed_is_reported_and_none_where_it_did_not() -> None:
    def facts(work: Callable[[dict[str, Any]], None]) -> tuple[object, list[str]]:
        host = ToldHost()
        steps: list[str] = []
        host.tell = steps.append
        return TRIAL["run"](host, work)["failed_at"], steps

    def broken(told: dict[str, Any]) -> None:
        TRIAL["step"](ToldHost(), told, "launch")
        raise RuntimeError

    assert facts(broken) == ("launch", ["import"])
    assert facts(lambda told: told.update(ran=True, ok=False)) == ("result", ["import"])
    assert facts(lambda told: told.update(ran=True, ok=True)) == (None, ["import"])
    assert facts(lambda told: told.update(unavailable="no GPU")) == (None, ["import"])


def test_nothing_stays_of_what_a_library_writes_and_what_its_user_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "the user's")
    monkeypatch.delenv("NEW", raising=False)
    before = tempfile.gettempdir()
    with TRIAL["scratch"]() as folder:
        assert tempfile.gettempdir() == folder
        Path(tempfile.mkdtemp(), "code.o").write_text("x")
        TRIAL["variables"](KEPT="ours", NEW=folder)
    assert (os.environ["KEPT"], os.environ["NEW"]) == ("the user's", folder)
    assert not Path(folder).exists()
    assert tempfile.gettempdir() == before


def test_vectors_are_right_and_exact_in_float32() -> None:
    factor, left, right, known = TRIAL["vectors"]()
    assert known == [factor * one + other for one, other in zip(left, right, strict=True)]
    assert len(set(known)) > 50
    assert known not in (left, right, [factor * one for one in left])


def test_files_are_reported_by_library_and_a_longer_name_is_another_library() -> None:
    maps = [
        "/w/libcuda.so.580.159.04",
        "/w/libcudart.so.13",
        "/t/torchvision.libs/libcudart-faf08d9a.so.13",
        "/w/libcublas.so.13",
        "/w/libcublasLt.so.13",
        "/w/libcudnn.so.9",
        "/w/libcudnn_ops.so.9",
        "/w/libnvrtc-builtins.so.13.0",
        "/w/libtorch_cuda.so",
    ]
    found = TRIAL["loaded"](ToldHost(maps=maps))
    assert found == {
        "libcuda": [maps[0]],
        "libcudart": sorted(maps[1:3]),
        "libcublas": [maps[3]],
        "libcublasLt": [maps[4]],
        "libcudnn": sorted(maps[5:7]),
        "libnvrtc": [maps[7]],
    }
    assert TRIAL["loaded"](ToldHost()) == {}
