# Run in a checkout, as root, with OUT naming an empty folder.
set -u
cd "$(dirname "$0")/../../.."
nvidia-smi --query-gpu=name,driver_version --format=csv
python3 -m gpustack --version
for c in doctor check "doctor --deep" "bench --quick" stack; do echo "=== gpustack $c"; ( time python3 -m gpustack $c > "$OUT/${c// /_}.txt" 2>"$OUT/err"; echo "rc $?" ) 2>&1 | grep "rc\|real"; head -9 "$OUT/${c// /_}.txt"; done
echo "=== requirements and findings of this machine"; python3 -m gpustack doctor --format json | python3 -c "
import json,sys,collections
d=json.load(sys.stdin); print(d['verdict']['status'], [(f['key'],f['severity'],f['title']) for f in d['findings']])
print(collections.Counter(c['status'] for c in d['contracts']), [c for c in d['contracts'] if c['status']=='broken'])
print('not seen:', [n['what'] for n in d['not_seen']])
print({s for f in d['findings'] for b in f['because'] for s in [b.get('strength')]})"
python3 -m gpustack snapshot -o "$OUT/snapshot.json" && python3 -m gpustack doctor --from "$OUT/snapshot.json" | head -2
echo "=== facts that the schema does not know"; python3 - <<'P'
import sys, os; sys.path.insert(0, ".")
from gpustack import snapshots
from gpustack.matrix import Matrix
from gpustack.matrix.facts import Schema
facts = snapshots.read(open(os.environ["OUT"] + "/snapshot.json").read())
schema = Schema(Matrix())
print([line for one in facts.components for line in schema.violations(one)])
P
echo "=== gpustack stress"; python3 -m gpustack stress --seconds 3 2>/dev/null | head -3
echo "=== gpustack trace --framework torch"; python3 -m gpustack trace --framework torch --model mlp 2>&1 | head -4
echo "=== gpustack matrix why, of this machine"; python3 -m gpustack matrix why "torch==2.9.1" --here | head -6
echo "=== pytest -m gpu tests/gpu"; timeout 200 python3 -m pytest -q -p no:cacheprovider -o addopts="--import-mode=importlib" -o filterwarnings= -W ignore -m gpu tests/gpu 2>&1 | tail -3
echo "=== budgets"; timeout 150 python3 benchmarks/budgets.py --rounds 5 --torch python3 2>&1 | tail -12
