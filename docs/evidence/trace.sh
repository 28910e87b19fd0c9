#!/usr/bin/env bash
# Tries `gpustack trace` on a machine with a GPU in one go: every model, precision and size, torch and JAX, and what of it
# must hold against `gpustack bench`. Run in the root of the checkout, with OUT set to an empty folder.
#   PYTHON   our Python, with the bench extra (default python3)
#   TARGET   the Python with torch and jax (default the same)
#   SIZES, MODELS, FRAMEWORKS   what is tried (default all)
# About six minutes on an H200: 18 traces of 8 to 15 s, 15 in frameworks.
# Writes results.json (all traces), must_hold.txt (what holds and what does not), bench.json, trace.txt, trace.html,
# perfetto.json, frameworks.txt, errors.txt.
set -u
PYTHON=${PYTHON:-python3} TARGET=${TARGET:-$PYTHON} OUT=${OUT:?set OUT to a folder}
work=$(mktemp -d)
export PYTHONPATH=$PWD XDG_CACHE_HOME=$work/cache
: >"$OUT/errors.txt"
SIZES=${SIZES-small medium large} MODELS=${MODELS-mlp convnet transformer} FRAMEWORKS=${FRAMEWORKS-torch jax}
declare -A precisions=([small]="fp32 fp16 bf16" [medium]="bf16" [large]="fp32 bf16")

say() { printf '%s %s\n' "$(date +%T)" "$*"; }
trace() { # name, options: one trace as JSON, its exit code and what it said beside
    local name=$1
    shift
    timeout 170 "$PYTHON" -m gpustack trace "$@" --python "$TARGET" --timeout 150 --format json -o "$work/$name.json" 2>"$work/$name.err"
    local code=$?
    say "$name: exit $code"
    [ -s "$work/$name.err" ] && { echo "== $name"; tail -5 "$work/$name.err"; } >>"$OUT/errors.txt"
    return 0
}

say "bench"
"$PYTHON" -m gpustack bench pcie.h2d.pinned gemm.bf16 --python "$TARGET" --format json -o "$OUT/bench.json" 2>>"$OUT/errors.txt"

for size in $SIZES; do
    for model in $MODELS; do
        for precision in ${precisions[$size]}; do
            trace "gpu-$model-$size-$precision" --model $model --size $size --precision $precision
        done
    done
done

if [ -n "$FRAMEWORKS" ]; then
    for framework in $FRAMEWORKS; do
        for model in $MODELS; do
            trace "$framework-$model-small-bf16" --framework $framework --model $model --precision bf16
            trace "$framework-$model-small-fp32" --framework $framework --model $model --precision fp32
        done
        trace "$framework-mlp-large-bf16" --framework $framework --model mlp --size large --precision bf16
    done
    trace "onnxruntime-mlp-small-fp32" --framework onnxruntime --model mlp --precision fp32
    {
        for framework in $FRAMEWORKS; do
            timeout 120 "$PYTHON" -m gpustack trace --framework $framework --python "$TARGET" -v 2>&1 | cut -c1-200
        done
    } >"$OUT/frameworks.txt"
fi

say "beside the CPU, and the forms"
trace "cpu-mlp-small-fp32" --model mlp --cpu --precision fp32
timeout 170 "$PYTHON" -m gpustack trace --model transformer --size medium --python "$TARGET" -v \
    --format text -o "$OUT/trace.txt" --format html -o "$OUT/trace.html" --format perfetto -o "$OUT/perfetto.json" 2>>"$OUT/errors.txt"
say "forms: exit $?"

"$PYTHON" - "$work" "$OUT" <<'PY'
import json
import sys
from pathlib import Path

work, out = map(Path, sys.argv[1:])
traces = {}
for path in sorted(work.glob("*.json")):
    try:
        traces[path.stem] = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        traces[path.stem] = {"unreadable": str(error)}
out.joinpath("results.json").write_text(json.dumps(traces, separators=(",", ":")), "utf-8")
try:
    bench = {row["id"]: row["value"] for row in json.loads(out.joinpath("bench.json").read_text("utf-8"))["results"]}
except (OSError, ValueError, KeyError):
    bench = {}
lines, bad = [], 0


def must(name, held, text):
    global bad
    bad += not held
    lines.append(f"{'ok  ' if held else 'FAIL'} {name}: {text}")


def figure(trace, step, name):
    return next((one["value"] for one in trace["steps"][step - 1]["figures"] if one["name"] == name), None)


for name, trace in traces.items():
    if "steps" not in trace:
        must(name, False, str(trace)[:200])
        continue
    failed = [(step["number"], step["why"][:1]) for step in trace["steps"] if step["status"] != "done"]
    must(name, not failed or name.startswith("onnxruntime"), f"steps not done: {failed or 'none'}")
    for check in trace["checks"]:
        held = check["error"] <= check["bound"] and check["largest"] <= check["bound"] and check["finite"]
        must(name, held, f"{check['what']}: error {check['error']:.3g}, largest {check['largest']:.3g}, bound {check['bound']:g}")
    wall, total = trace.get("wall_seconds"), sum(step["seconds"] or 0 for step in trace["steps"])
    if wall:
        must(name, abs(total - wall) <= 0.1 * wall, f"steps {total:.3f} s, wall {wall:.3f} s")
    if name.startswith("gpu-"):
        copied, here = figure(trace, 2, "pinned, in trains"), bench.get("pcie.h2d.pinned")
        once = figure(trace, 2, "copied from pinned memory")
        if "large" in name and copied and here:
            must(name, abs(copied / here - 1) <= 0.05, f"copy {copied:.2f} GB/s in trains, {once:.2f} once, bench {here:.2f}")
        if "large-bf16" in name and "convnet" not in name:
            gemms = [one for one in trace["layers"] if one["op"] == "gemm" and one["seconds"]]
            peak = bench.get("gemm.bf16") or 0
            rates = {one["name"]: one["flops"] / one["seconds"] / 1e12 for one in gemms}
            low = min(rates.values(), default=0.0)
            must(name, peak and low >= 0.6 * peak, f"least GEMM {low:.0f} TFLOP/s of {peak:.0f}: { {k: round(v) for k, v in rates.items()} }")
        launching, overlap = trace.get("launching"), trace.get("overlap")
        if launching:
            lines.append(f"     {name}: eager {launching['eager_seconds']*1e6:.0f} us, graph {launching['graph_seconds']*1e6:.0f} us, kernels {launching['kernel_seconds']*1e6:.0f} us")
        if overlap:
            lines.append(f"     {name}: serial {overlap['serial_seconds']*1e6:.0f} us, overlapped {overlap['overlapped_seconds']*1e6:.0f} us")
        unknown = [kernel["name"] for kernel in trace["kernels"] if not kernel["grid"]]
        lines.append(f"     {name}: {len(trace['kernels'])} kernels, grid not known of {len(unknown)}; {trace['seconds']:.1f} s in all")
        told = [why for why in trace["steps"][4]["why"] if why]
        if told:
            lines.append(f"     {name}: {told}")
out.joinpath("must_hold.txt").write_text("\n".join(lines) + f"\n{bad} not held\n", "utf-8")
print("\n".join(line for line in lines if line.startswith("FAIL")) or "all held")
PY
rm -rf "$work"
