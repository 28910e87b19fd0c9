#!/bin/sh
# Drain this node with gpustack's reason while its GPU stack is at fault, and resume it when it passes again.
# Called as: node.sh health|prolog|epilog. Only the health check resumes, and only what gpustack drained; a node that
# someone else has drained, or that is down, keeps its reason. An unknown state changes nothing: whatever goes wrong
# in settings.sh or in gpustack is written to the log below, once per node and cause, and fails no job.
# Exit status: 75 for a proven fault in a prolog, else 0.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
log=/var/log/gpustack-slurm.log
limit=55 # seconds in total; Slurm kills a health check after 60 s
mode=$1
here=$(cd "$(dirname "$0")" && pwd)
node=${SLURMD_NODENAME:-$(hostname -s)}

# settings.sh is a program that may be truncated, so a child process reads it and does the work. Only the last word that
# the child prints counts: a child that settings.sh ended, replaced or hung has not printed it.
if [ "$2" != inside ]; then
    answer=$(timeout -k 2 "$limit" "$0" "$mode" inside </dev/null)
    status=$?
    case $answer in
        sick) exit 75 ;;
        finished) exit 0 ;;
        cause:*) cause=${answer#cause:} ;;
        *) cause="settings.sh ended the hook with exit status $status (124: after $limit s)" ;;
    esac
    [ -f "$here/settings.sh" ] && [ -r "$here/settings.sh" ] || cause="$here/settings.sh is missing or cannot be read"
    {
        grep -qF " $node: $cause;" "$log" ||
            printf '%s %s: %s; nothing is changed\n' "$(date +%FT%T%z)" "$node" "$cause" >>"$log"
    } 2>/dev/null || echo "$node: $cause; nothing is changed, and $log cannot be written" >&2
    exit 0
fi

tell() {
    echo "cause:$1"
    exit 0
}

sh -n "$here/settings.sh" 2>/dev/null || tell "settings.sh is no whole shell script; sh -n $here/settings.sh says where"
set --
# shellcheck source=integrations/slurm/settings.sh
. "$here/settings.sh" >/dev/null 2>&1
set +efu
unset IFS
trap - EXIT

[ -f "$gpustack" ] && [ -x "$gpustack" ] || tell "settings.sh names no program as gpustack"
case $check_seconds in
    '' | *[!0-9]*) tell "check_seconds in settings.sh is not a whole number" ;;
esac
shown=$(timeout -k 1 3 scontrol show node "$node")

# A node must have the GPUs that its GRES names, and none if it names none; MIG instances are not counted.
gres=$(printf '%s\n' "$shown" | sed -n 's/^ *Gres=/,/p' | sed 's/([^)]*)//g')
case "$gres: $* " in
    :* | *' --gpus '* | *' --gpus='*) ;;
    *)
        gpus=$(printf '%s\n' "$gres" | tr , '\n' | awk -F: '
            $1 == "gpu" { mig = mig || $2 ~ /^[0-9]+[cg][._]/; all += NF > 1 ? $NF : 1 }
            END { if (!mig) print all + 0 }')
        [ -z "$gpus" ] || set -- "$@" --gpus "$gpus"
        ;;
esac
unset CUDA_VISIBLE_DEVICES # set by the job; the whole node is checked

python=$(dirname "$(readlink -f "$gpustack")")/python3
[ -x "$python" ] || python=python3
said=$({
    timeout -k 1 "$((check_seconds + 4))" "$gpustack" check --format json --timeout "$check_seconds" "$@" 2>/dev/null
    printf '\n%s' "$?"
} | head -c 33554432 | "$python" -I -c '
import json, sys
text, _, status = sys.stdin.buffer.read().rpartition(b"\n")
if status not in (b"0", b"1"):
    sys.exit(print("cause: gpustack ended with exit status", int(status)))
said = json.loads(text)
if said["class"] in ("ok", "degraded", "bad-host", "bad-environment", "unknown"):
    print(said["class"], "".join(one for one in said["why"] if one.isprintable() and one != "\42")[:160])' 2>/dev/null)
case $said in
    '') tell "gpustack gave no answer that can be read" ;;
    cause:*) tell "${said#cause: }" ;;
esac
class=${said%% *}
reason="gpustack $class: ${said#* }"

state=$(printf '%s\n' "$shown" | sed -n 's/^ *State=\([^ ]*\).*/\1/p')
before=$(printf '%s\n' "$shown" | sed -n 's/^ *Reason=\(.*\) \[[^[]*\]$/\1/p')
case $state:$before in
    *DRAIN*:gpustack\ *) held=ours ;;
    *DRAIN*:* | DOWN*:*) held=others ;;
    *) held=no ;;
esac

case " $drain_on " in
    *" $class "*) sick=yes ;;
    *) sick=no ;;
esac
if [ $sick = yes ]; then
    echo "$reason" >&2
    if [ "$held" = no ] || { [ "$held" = ours ] && [ "$before" != "$reason" ]; }; then
        timeout -k 1 3 scontrol update NodeName="$node" State=DRAIN Reason="$reason" >&2
    fi
    [ "$mode" != prolog ] || { echo sick; exit 0; } # Slurm requeues the job, for another node
elif [ "$held" = ours ] && [ "$mode" = health ]; then
    case $class in
        ok | degraded | bad-environment) timeout -k 1 3 scontrol update NodeName="$node" State=RESUME >&2 ;;
    esac
fi
echo finished
