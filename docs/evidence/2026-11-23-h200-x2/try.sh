# Run in a checkout, as root, with WHEEL a built wheel; about two and a half minutes on two H200.
set -u
python3 -m pip install -q --no-index --no-deps "$WHEEL"; here=$PWD; mkdir -p /tmp/w; cd /tmp/w
nvidia-smi --query-gpu=name,driver_version --format=csv
for c in "doctor -q" "check" "bench --quick" "bench --quick --gpu 0" "bench --quick" "stress --seconds 3"; do echo "=== gpustack $c"; ( time python3 -m gpustack $c > o.txt 2>/dev/null; echo "rc $?" ) 2>&1 | grep "rc\|real"; head -26 o.txt; done
echo "=== CUDA_VISIBLE_DEVICES=0 check --gpus 2"; CUDA_VISIBLE_DEVICES=0 python3 -m gpustack check --gpus 2 --no-bench 2>/dev/null | head -8
echo "=== fleet: this machine with its bench"; mkdir -p n; python3 -m gpustack snapshot -o n/a.json 2>/dev/null; gzip n/a.json; python3 -m gpustack bench --quick --format json -o n/a.bench.json 2>/dev/null; gzip n/a.bench.json; python3 -m gpustack fleet judge n | head -20
cd $here; timeout 200 python3 -m pytest -q -p no:cacheprovider -o addopts="--import-mode=importlib" -o filterwarnings= -W ignore -m gpu tests/gpu tests/bench/test_on_gpu.py 2>&1 | tail -4
