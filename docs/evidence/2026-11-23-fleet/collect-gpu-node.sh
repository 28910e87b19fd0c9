#!/bin/bash
# Collects this GPU machine as a fleet of one node, with its bench twice, judges it, and prints the outcome.
# $1: the gpustack to use (default: gpustack on PATH). Results go to ${OUT:-/tmp/fleet-device}.
set -u
gpustack=$(command -v "${1:-gpustack}") || { echo "no gpustack at ${1:-gpustack}"; exit 2; }
gpustack=$(realpath -s "$gpustack")
out=${OUT:-/tmp/fleet-device}
mkdir -p "$out/bin"
fail=0
check() { if eval "$2"; then echo "PASS $1"; else echo "FAIL $1"; fail=1; fi; }

if command -v mpirun >/dev/null; then
    engine=mpi nodes=localhost
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
else # no launcher here: clush's place is taken by a script that runs the words on this machine
    engine=ssh nodes=gpunode1
    printf '%s\n' '#!/bin/sh' 'while [ "$1" != -w ]; do shift; done; shift 2; exec "$@"' >"$out/bin/clush"
    chmod +x "$out/bin/clush"
    PATH=$out/bin:$PATH
fi
echo "engine $engine, node $nodes"; nvidia-smi -L

collect() { "$gpustack" fleet collect "$out/nodes" --engine "$engine" --nodes "$nodes" --program "$gpustack" --timeout 150 --attempts 1 "$@"; }
time collect --bench;         check "the node answers"                        '[ -f "$out/nodes/$nodes.json.gz" ] && [ -f "$out/nodes/$nodes.bench.json.gz" ]'
again=$(collect --bench);     check "a second collect asks nobody"            'grep -q "1 had answered before" <<<"$again"'
time collect --bench --again; check "the second bench stands beside the first" '[ -f "$out/nodes/$nodes.bench.2.json.gz" ]'

time "$gpustack" fleet judge "$out/nodes" -v --fail-on never | tee "$out/judge.txt"
for form in json html prometheus junit nodelist; do
    "$gpustack" fleet judge "$out/nodes" --format $form --fail-on never -o "$out/fleet.$form"
done
python3 - "$out/fleet.json" <<'P'
import json, sys
said = json.load(open(sys.argv[1]))
print("status", said["status"], "| kinds", [(one["kind"], one["status"], one["root_causes"]) for one in said["classes"]])
for one in said["figures"]:
    print(f'{one["id"]:18} {one["median"]:10.2f} {one["unit"]:8} gpus {one["gpus"]} least {one["least"]:.2f} greatest {one["greatest"]:.2f} low {[(low["gpus"], low["verdict"]) for low in one["outliers"]]}')
P
gpus=$(nvidia-smi -L | wc -l)
check "the kind counts all GPUs"         'grep -q "\"kind\": \"$gpus x " "$out/fleet.json"'
check "figures of every GPU are there"   '[ "$(grep -c "\"gpus\": $gpus" "$out/fleet.json")" -ge 5 ] || [ "$gpus" = 1 ]'
check "nothing is missing"               'grep -q "\"missing\": \[\]" "$out/fleet.json"'
check "no bench is unreadable"           'grep -q "\"unread\": \[\]" "$out/fleet.json"'
held=$("$gpustack" fleet gate "$nodes" --store "$out/nodes/fleet.sqlite"); echo "gate: exit $? $held"
"$gpustack" fleet pack "$out/nodes" "$out/nodes.sqlite" && "$gpustack" fleet judge "$out/nodes.sqlite" --fail-on never | head -3

head -c 32 /dev/urandom >"$out/key"
"$gpustack" fleet collect "$out/hidden" --engine "$engine" --nodes "$nodes" --program "$gpustack" --timeout 150 --bench --pseudonyms "$out/key"
uuids=$(nvidia-smi --query-gpu=uuid,serial --format=csv,noheader | tr -d ' ' | tr , '\n' | grep -v N/A)
leaked=$(for f in "$out"/hidden/*; do basename "$f"; zcat -f "$f"; done | grep -cwF -e "$(hostname)" $(printf -- '-e %s ' $uuids))
check "no name, UUID or serial number under pseudonyms ($leaked lines)" '[ "$leaked" = 0 ]'
rm -f "$out/key"
echo "outcome: $([ $fail = 0 ] && echo all passed || echo something failed)"
exit $fail
