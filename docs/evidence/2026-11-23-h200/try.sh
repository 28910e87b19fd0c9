# Run in a checkout, as root, with OUT naming an empty folder and WHEEL a built wheel; about four minutes on one H200.
set -u
cd "$(dirname "$0")/../../.."
checkout=$PWD
python3 -m pip install -q --no-index --no-deps "$WHEEL"
mkdir -p /tmp/apart && cd /tmp/apart || exit 1
nvidia-smi --query-gpu=name,driver_version --format=csv
for c in doctor "doctor -v" check "doctor --deep" "bench --quick" stack; do
    echo "=== gpustack $c"
    # shellcheck disable=SC2086 # several arguments on purpose
    (time python3 -m gpustack $c >"$OUT/${c// /_}.txt" 2>/tmp/apart/err; echo "rc $?") 2>&1 | grep "rc\|real"
    head -9 "$OUT/${c// /_}.txt"
done
echo "=== requirements and findings of this machine"
python3 -m gpustack doctor --format json | python3 -c "
import collections, json, sys
d = json.load(sys.stdin)
print(d['verdict']['status'], [(f['key'], f['severity'], f['title']) for f in d['findings']])
print(collections.Counter(c['status'] for c in d['contracts']), [c for c in d['contracts'] if c['status'] == 'broken'])
print('not seen:', [n['what'] for n in d['not_seen']])"
echo "=== medians of seven rounds, the commands taking turns"
python3 - <<'P'
import statistics, subprocess, time
own = ["python3", "-m", "gpustack"]
commands = {
    "python": ["python3", "-c", "pass"], "--help": [*own, "--help"], "doctor": [*own, "doctor"],
    "--from": [*own, "doctor", "--from", "/tmp/apart/s.json"], "collect_env": ["python3", "-m", "torch.utils.collect_env"],
}
subprocess.run([*own, "snapshot", "-o", "/tmp/apart/s.json"])
taken = {name: [] for name in commands}
for _ in range(7):
    for name, words in commands.items():
        begun = time.perf_counter()
        subprocess.run(words, capture_output=True)
        taken[name].append(time.perf_counter() - begun)
median = {name: statistics.median(all_) for name, all_ in taken.items()}
print({name: round(value, 3) for name, value in median.items()})
for one, other in (("doctor", "collect_env"), ("--from", "python"), ("--help", "python")):
    print(f"{one} / {other}: {median[one] / median[other]:.3f}")
P
echo "=== gpustack stress"
python3 -m gpustack stress --seconds 3 2>/dev/null | head -3
echo "=== gpustack trace --framework torch"
python3 -m gpustack trace --framework torch --model mlp 2>&1 | head -4
echo "=== gpu-marked tests"
cd "$checkout" || exit 1
timeout 240 python3 -m pytest -q -p no:cacheprovider -o addopts="--import-mode=importlib" -o filterwarnings= -W ignore -m gpu tests/gpu tests/bench/test_on_gpu.py 2>&1 | tail -3
cp /tmp/apart/s.json "$OUT/snapshot.json"
