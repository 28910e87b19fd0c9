#!/usr/bin/env bash
# Collect the evidence of one GPU machine: docs/evidence/collect.sh OUT [PYTHON-WITH-TORCH]
# Builds nothing and installs nothing but the wheel that it is given in WHEEL, into an environment of its own; names,
# serials, UUIDs and addresses are taken out by gpustack itself. PIP_ARGS may name a folder of wheels for a machine
# without a network ("--no-index --find-links FOLDER").
set -u
cd "$(dirname "$0")/../.."
out=$1 torch=${2:-python3} env=${ENV:-/tmp/gpustack-evidence}
python3 -m venv "$env"
# shellcheck disable=SC2086 # several arguments on purpose
"$env/bin/pip" install -q ${PIP_ARGS:-} "$WHEEL[bench]" pytest pytest-timeout hypothesis jsonschema pydantic || exit 1
cd "$out" || exit 1
gpustack=$env/bin/gpustack
checkout=$OLDPWD

head_of() {
    printf '# %s\n# %s, %s, driver %s, %s\n\n' "$1" "$(date -u +%Y-%m-%d)" \
        "$(nvidia-smi --query-gpu=name --format=csv,noheader | sort | uniq -c | xargs)" \
        "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)" "$("$gpustack" --version)"
}
run() {
    said="${*//$env\/bin\//}"
    printf '\n$ %s\n' "${said//$checkout\//}"
    "$@" 2>&1
    printf '[exit code %s]\n' "$?"
}

{
    head_of 'The doctor, from the built wheel'
    run "$gpustack" doctor --redact
    run "$gpustack" doctor --deep --redact
    run "$gpustack" doctor --redact -v
    printf '\n\n# The same machine with faults put in by environment variables alone\n'
    run env CUDA_VISIBLE_DEVICES=99 "$gpustack" doctor --redact
    for folder in /usr/local/cuda/lib64/stubs /usr/local/cuda/compat; do
        stand_in=$(mktemp -d) # a stub answers to libcuda.so alone; as libcuda.so.1 it is what a careless image makes of it
        ln -s "$(realpath "$folder/libcuda.so")" "$stand_in/libcuda.so.1"
        run env LD_LIBRARY_PATH="$stand_in:${LD_LIBRARY_PATH:-}" "$gpustack" doctor --redact
    done
    run env LD_LIBRARY_PATH="/usr/lib/x86_64-linux-gnu:${LD_LIBRARY_PATH:-}" "$gpustack" doctor --deep --redact
} >doctor.txt
"$gpustack" doctor --deep --redact --format json -o doctor.json
"$gpustack" snapshot --deep -o snapshot.json
{
    head_of 'The bench, from the built wheel, twice'
    run "$gpustack" bench
    run "$gpustack" bench
    run "$gpustack" bench --quick
} >bench.txt
"$gpustack" bench --redact --format json -o bench.json
{
    head_of 'The tests that need a GPU, against the installed wheel'
    apart=$(mktemp -d) # without gpustack beside it, so that the installed wheel is what is tested
    cp -r "$checkout/tests" "$checkout/probes" "$checkout/pyproject.toml" "$apart"
    cd "$apart" || exit 1
    run "$env/bin/python" -m pytest -m gpu -v -p no:cacheprovider tests/gpu tests/bench/test_on_gpu.py
    cd "$out" || exit 1
} >tests.txt
{
    head_of 'The budgets, as ratios of one run, the commands taking turns'
    run "$env/bin/python" "$checkout/benchmarks/budgets.py" --torch "$torch" --rounds 7 --json budgets.json
} >budgets.txt
cat doctor.txt bench.txt tests.txt budgets.txt
