"""Whether an answer is right: its error against the truth, and the bound of its precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.trace_figures import Check

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BOUNDS = {"fp32": 1e-5, "fp16": 1e-2, "bf16": 1e-2}
TRUTH = "numpy in float64"


def compare(
    got: NDArray[np.floating], wanted: NDArray[np.floating], precision: str, *, what: str, rows: int | None = None
) -> Check:
    """Give how far an answer is from the truth; ``rows`` is how many rows there were, of which these were taken.

    Two measures, since the first alone would let one wrong number of many pass: the length of the difference over the
    length of the truth, and the largest difference over the largest number of the truth.
    """
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    said = np.asarray(got, np.float64)
    if said.shape != wanted.shape:
        raise ValueError(f"the answer has the shape {said.shape}, the truth {wanted.shape}")
    finite = bool(np.isfinite(said).all())
    apart = np.abs(np.where(np.isfinite(said), said, 0.0) - wanted)
    length, largest = float(np.sqrt((wanted**2).sum())), float(np.abs(wanted).max(initial=0.0))
    return Check(
        what=what,
        against=TRUTH,
        precision=precision,
        error=_over(float(np.sqrt((apart**2).sum())), length),
        largest=_over(float(apart.max(initial=0.0)), largest),
        bound=BOUNDS[precision],
        compared=len(said),
        rows=rows or len(said),
        finite=finite,
    )


def said(check: Check) -> str:
    """Give in words what the check found: why the answer is wrong, or how near it is."""
    rows = f"{check.compared} of {check.rows} rows" if check.compared < check.rows else f"all {check.rows} rows"
    if not check.compared:
        return "nothing was compared"
    if not check.finite:
        return f"the answer holds numbers that are none (NaN or infinity), in {rows}"
    near = f"relative error {max(check.error, check.largest):.2g} against {check.against}, over {rows}"
    return f"{near}, within {check.bound:g}" if check.passed else f"{near}: more than {check.bound:g} is wrong"


def _over(error: float, size: float) -> float:
    return error / size if size else error
