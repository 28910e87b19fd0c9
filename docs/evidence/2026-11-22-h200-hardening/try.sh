# Run in a checkout, as root, with OUT naming an empty folder.
set -u
cd "$(dirname "$0")/../../.."
nvidia-smi --query-gpu=name,driver_version --format=csv
python3 -m gpustack --version
mkdir -p /tmp/evil && cd /tmp/evil && for m in json pip torch pynvml rich typing sitecustomize; do echo "open('/tmp/PWN-$m','w')" > $m.py; done; cd - >/dev/null
export ROOT=$PWD
for c in "doctor" "check" ; do echo "=== gpustack $c"; ( time python3 -m gpustack $c > $OUT/$c.txt 2>$OUT/$c.err; echo "rc $?" ) 2>&1 | grep "rc\|real"; head -8 $OUT/$c.txt; done
echo "=== gpustack bench --quick"; ( time python3 -m gpustack bench --quick --format json -o $OUT/bench.json ) 2>&1 | grep real; python3 - <<'P'
import json,os
d=json.load(open(os.environ["OUT"]+"/bench.json"))
for r in d["results"]: print(r["id"], r["device"], r["value"] and round(r["value"],2), r["unit"], r["ratio"] and round(r["ratio"],3), r["verdict"], r["why"])
P
echo "=== from a hostile working folder, as the installed command starts"; cat > /tmp/g.py <<P
import sys; sys.path[:0]=["$ROOT"]; sys.path=[p for p in sys.path if p]
from gpustack.__main__ import main; sys.argv=["gpustack"]+sys.argv[1:]; main()
P
cd /tmp/evil; for c in "doctor" "bench --quick hbm.copy" "stress --seconds 3" "trace --model mlp" "check --no-bench"; do python3 -P /tmp/g.py $c >/tmp/o.txt 2>/tmp/e.txt; echo "$c rc $? $(head -1 /tmp/o.txt) $(tail -1 /tmp/e.txt)"; done; echo "markers of planted modules: $(ls /tmp/PWN* 2>/dev/null | wc -l)"; cd $ROOT
echo "=== full disk (tmpfs of 64 kB)"; mkdir -p /tmp/full; mount -t tmpfs -o size=64k tmpfs /tmp/full && { yes | head -c 60000 > /tmp/full/fill; echo old > /tmp/full/b.json; python3 -m gpustack bench --quick hbm.copy --save /tmp/full/b.json -o /dev/null; echo "rc $?, the old file holds: $(cat /tmp/full/b.json)"; umount /tmp/full; }
echo "=== gpustack doctor --deep"; ( time python3 -m gpustack doctor --deep > $OUT/deep.txt 2>&1 ) 2>&1 | grep real; head -5 $OUT/deep.txt
echo "=== gpustack trace --framework torch"; python3 -m gpustack trace --framework torch --model mlp 2>&1 | head -4
echo "=== pytest -m gpu tests/gpu"; timeout 240 python3 -m pytest -q -p no:cacheprovider -o addopts="--import-mode=importlib" -o filterwarnings= -W ignore -m gpu tests/gpu 2>&1 | tail -3
