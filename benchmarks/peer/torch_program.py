"""What torch achieves on the same GPU, printed as one line of JSON: fill, copy, and products in the given shapes.

    PYTHON-WITH-TORCH torch_program.py '{"bf16": [[8448, 4096, 8192]]}'

GB/s of bytes written (fill_), of bytes read and written (copy_), and TFLOP/s of products D = A x B transposed, with
random numbers. Each figure is the median of trains between two events, with a rest after each, as in our benchmarks.
"""

# mypy: disable-error-code="import-not-found, no-untyped-def, no-untyped-call"
# ruff: noqa: ANN001, ANN201, PLC0415

import json
import statistics
import sys
import time
from functools import partial

TRAINS, REST = 9, 0.032
COPIED, PRODUCED = 0.02, 0.008  # seconds per train
SIZES = (2 << 30, 8 << 30)


def timed(torch, run, seconds):
    """Return the seconds of one run: the median of trains that last about this many seconds each."""
    run()
    torch.cuda.synchronize()
    runs, taken = 1, []
    for number in range(TRAINS + 3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(runs):
            run()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1000 / runs)
        if number < 3:  # noqa: PLR2004 - the first ones only find how long a train must be
            runs = max(1, round(seconds / taken.pop()))
        time.sleep(REST)
    return statistics.median(taken)


def memory(torch):
    """Return the GB/s of fill_ and copy_, the better of two sizes."""
    found = {"fill": 0.0, "copy": 0.0}
    for size in SIZES:
        source = torch.empty(size // 4, dtype=torch.int32, device="cuda").random_()
        target = torch.empty_like(source)
        found["fill"] = max(found["fill"], size / timed(torch, partial(target.fill_, 7), COPIED) / 1e9)
        found["copy"] = max(found["copy"], 2 * size / timed(torch, partial(target.copy_, source), COPIED) / 1e9)
        del source, target
    torch.cuda.empty_cache()
    return found


def product(torch, dtype, m, n, k):
    """Return a function that computes one product of this type and shape."""
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    plain = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32}
    plain.update(fp16=torch.float16, bf16=torch.bfloat16)
    if dtype == "int8":
        a, b = (torch.randint(-128, 128, (rows, k), dtype=torch.int8, device="cuda") for rows in (m, n))
        return lambda: torch._int_mm(a, b.t())  # noqa: SLF001 - torch has no public name for it
    a, b = (torch.randn(rows, k, dtype=plain.get(dtype, torch.float32), device="cuda") for rows in (m, n))
    if dtype == "fp8":
        scale = torch.ones((), device="cuda")
        a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        types = {"out_dtype": torch.bfloat16, "use_fast_accum": True}
        return lambda: torch._scaled_mm(a, b.t(), scale, scale, **types)  # noqa: SLF001 - the same
    out = torch.empty(m, n, dtype=a.dtype, device="cuda")
    return lambda: torch.mm(a, b.t(), out=out)


def main(shapes):
    """Print all figures."""
    import torch  # pyright: ignore[reportMissingImports]  # on the measured machine

    found = memory(torch)
    for dtype, sizes in shapes.items():
        for m, n, k in sizes:
            seconds = timed(torch, product(torch, dtype, m, n, k), PRODUCED)
            found[dtype] = max(found.get(dtype, 0.0), 2.0 * m * n * k / seconds / 1e12)
            torch.cuda.empty_cache()
    print(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
