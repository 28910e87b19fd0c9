#!/bin/sh
# Drain this node with gpustack's reason while its GPU stack is at fault, and resume it when it passes again.
# Called as: node.sh health|prolog|epilog. Only the health check resumes, and only what gpustack drained; a node that
# somebody else has drained, or that is down, keeps its reason. What cannot be told changes nothing.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
mode=$1
here=$(cd "$(dirname "$0")" && pwd)
node=${SLURMD_NODENAME:-$(hostname -s)}
# shellcheck source=integrations/slurm/settings.sh
. "$here/settings.sh"

python=$(dirname "$(readlink -f "$gpustack")")/python3
said=$(timeout -k 2 "$((check_seconds + 8))" "$gpustack" check --format json --timeout "$check_seconds" "$@" |
    "$python" -I -c '
import json, sys
said = json.load(sys.stdin)
print(said["class"], "".join(one for one in said["why"] if one.isprintable() and one != "\42")[:160])' 2>/dev/null)
class=${said%% *}
if [ -z "$class" ]; then
    echo "gpustack gave no answer; nothing is changed" >&2
    exit 0
fi
reason="gpustack $class: ${said#* }"

shown=$(scontrol show node "$node")
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
        scontrol update NodeName="$node" State=DRAIN Reason="$reason"
    fi
    [ "$mode" != prolog ] || exit 1 # Slurm queues the job again, for another node
elif [ "$held" = ours ] && [ "$mode" = health ]; then
    case $class in
        ok | degraded | bad-environment) scontrol update NodeName="$node" State=RESUME ;;
    esac
fi
exit 0
