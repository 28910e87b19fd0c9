# Run in a checkout, as root, with OUT naming an empty folder; about six minutes on two H200.
set -u
cd "$(dirname "$0")/../../.."
cat >"$OUT/compare.py" <<'P'
"""What reports of one machine say of the same figures: alone and together, and run against run."""

import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])


def figures(name):
    """Return the figures of a saved report, by name and GPU."""
    path = folder / f"{name}.json"
    rows = json.loads(path.read_text())["results"] if path.exists() else []
    return {(one["id"], one["device"], tuple(one.get("gpus") or ())): one for one in rows if one.get("value")}


pairs = [
    ("quick-one", "quick-all"),
    ("quick-second-alone", "quick-all"),
    ("quick-all", "quick-all-again"),
    ("quick-one", "quick-one-again"),
    ("full-one", "full-all"),
]
for one, other in pairs:
    first, second = figures(one), figures(other)
    print(f"{one} against {other}")
    for key in sorted(set(first) & set(second), key=str):
        a, b = first[key], second[key]
        held = [(row.get("telemetry") or {}).get("clocks", {}).get("held") for row in (a, b)]
        change = b["value"] / a["value"] - 1
        mark = "" if abs(change) <= 0.01 else "  over 1 %"
        print(f"  {key[0]:20}{key[1]!s:6}{a['value']:10.2f}{b['value']:10.2f} {change:+7.2%} clocks {held}{mark}")
for name in ("quick-all", "full-all"):
    for key, one in figures(name).items():
        if key[2] or key[0].endswith(".all"):
            cards = one["method"].get("cards")
            print(f"{name} {key[0]} {key[2]}: {one['value']:.2f} of {one['ceiling']} {one['verdict']} {cards or ''} {one['seconds']:.2f} s")
P
cat >"$OUT/memory.py" <<'P'
"""The peak of the host memory of each child of a command, and what it is made of at that moment."""

import collections
import os
import re
import subprocess
import sys
import time
from pathlib import Path


def children(pid):
    """Return the processes under one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *children(int(child))]
    return found


def pss(pid):
    """Return the proportional set size of a process in MiB, with its anonymous, file and shared-memory parts."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: int(kib) / 1024 for name, kib in re.findall(r"^(Rss|Pss|Pss_Anon|Pss_File|Pss_Shmem):\s+(\d+)", text, re.M)}


def made_of(pid):
    """Return the mappings with the most memory."""
    held, name = collections.Counter(), ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            name = line.split(maxsplit=5)[5] if len(line.split(maxsplit=5)) > 5 else "anonymous"
        elif line.startswith("Pss:"):
            held[os.path.basename(name) or name] += int(line.split()[1]) / 1024
    return held.most_common(12)


command = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
peaks = {}
while command.poll() is None:
    for pid in [command.pid, *children(command.pid)]:
        try:
            now = pss(pid)
            if now.get("Pss", 0) > peaks.get(pid, ({"Pss": 0},))[0]["Pss"] + 20:
                peaks[pid] = (now, made_of(pid))
        except (OSError, KeyError):
            continue
    time.sleep(0.1)
for pid, (now, parts) in peaks.items():
    print(pid, {name: round(mib) for name, mib in now.items()})
    for name, mib in parts:
        print(f"    {mib:7.0f} MiB  {name}")
P
g="timeout 120 python3 -m gpustack"
run() { name=$1; shift; begun=$(date +%s.%N); "$@" >"$OUT/$name.txt" 2>"$OUT/$name.err"; rc=$?; echo "$name: rc $rc, $(echo "$(date +%s.%N) - $begun" | bc 2>/dev/null || python3 -c "import time; print(round(time.time() - $begun, 2))") s"; }
nvidia-smi --query-gpu=index,name,driver_version,power.limit --format=csv; nvidia-smi topo -m | head -8; nproc; free -g | head -2
echo "=== quick: one card, all cards, twice each"
run quick-one $g bench --quick --gpu 0 --save "$OUT/quick-one.json"
run quick-all $g bench --quick --save "$OUT/quick-all.json"
run quick-one-again $g bench --quick --gpu 0 --save "$OUT/quick-one-again.json"
run quick-all-again $g bench --quick --save "$OUT/quick-all-again.json"
run quick-second-alone $g bench --quick --gpu 1 --save "$OUT/quick-second-alone.json"
cat "$OUT/quick-all.txt" "$OUT/quick-all.err"
echo "=== full suite: one card, all cards"
run full-one $g bench --gpu 0 --save "$OUT/full-one.json"
run full-all $g bench --save "$OUT/full-all.json" --plot "$OUT/full-all.html"
cat "$OUT/full-all.txt"
echo "=== what agrees: alone against all at the same time, run against run"; python3 "$OUT/compare.py" "$OUT"
echo "=== host memory of the children in a quick run"; python3 "$OUT/memory.py" $g bench --quick 2>&1 | tee "$OUT/memory.txt"
echo "=== check"; run check $g check --format json; run check-text $g check; cat "$OUT/check-text.txt" | head -40; run check-three $g check --gpus 3 --no-bench; head -4 "$OUT/check-three.txt"
run check-hidden env CUDA_VISIBLE_DEVICES=0 $g check --gpus 2; head -3 "$OUT/check-hidden.txt"
echo "=== a competing process on GPU 1"
python3 -c "
import torch, time
a = torch.randn(8192, 8192, device='cuda:1', dtype=torch.bfloat16); b = a.clone(); big = torch.empty(2 << 30, dtype=torch.uint8, device='cuda:1')
end = time.time() + 60
while time.time() < end:
    for _ in range(20): torch.mm(a, b); big.add_(1)
    torch.cuda.synchronize()
" & other=$!
sleep 8
run beside $g bench --quick; cat "$OUT/beside.txt"
run beside-check $g check; head -30 "$OUT/beside-check.txt"
kill $other; wait $other 2>/dev/null
echo "=== stress on all cards"; run stress $g stress --seconds 10; cat "$OUT/stress.txt"; tail -2 "$OUT/stress.err"
echo "=== Ctrl-C in the middle of a load"; timeout -s INT 12 python3 -m gpustack stress --seconds 60 >"$OUT/interrupted.txt" 2>/dev/null; echo "rc $?"; head -8 "$OUT/interrupted.txt"; nvidia-smi --query-compute-apps=pid --format=csv,noheader | wc -l
echo "=== pytest -m gpu"; timeout 120 python3 -m pytest -q -p no:cacheprovider -o addopts="--import-mode=importlib" -o filterwarnings= -W ignore -m gpu tests/bench/test_on_gpu.py 2>&1 | tail -12
