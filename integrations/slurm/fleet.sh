#!/bin/sh
# Hold back the nodes that the last `gpustack fleet judge` found broken, missing or slow, and free those that are well again.
# Called as: fleet.sh [STORE], as HealthCheckProgram, as Prolog, or by cron on the controller for all nodes at once; without
# STORE it is fleet_store of settings.sh. It drains with the reason "gpustack-fleet: ..." and resumes only what has that
# reason. A store that cannot be read changes nothing.
# Exit status: 1 in a prolog whose node is held back, so that Slurm queues the job again; else 0.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
store=$1
# shellcheck source=integrations/slurm/settings.sh
. "$(dirname "$0")/settings.sh"
store=${store:-$fleet_store}
wanted=${SLURMD_NODENAME:-}

held=$(timeout 30 "$gpustack" fleet gate ${wanted:+"$wanted"} --store "$store" --format text)
[ $? -le 1 ] || exit 0

printf '%s\n' "$held" | while IFS=: read -r node why; do
    [ -n "$node" ] || continue
    case $(sinfo --noheader --Node --nodes="$node" --format=%T | head -n 1) in
        *drain* | down* | '') ;; # somebody has it already, or Slurm does not know it
        *) scontrol update NodeName="$node" State=DRAIN Reason="gpustack-fleet:$(printf %s "$why" | tr -d '"' | cut -c 1-160)" ;;
    esac
done

sinfo --noheader --Node ${wanted:+--nodes="$wanted"} --states=drain --format='%N %E' | sort -u |
    while read -r node reason; do
        case $reason in
            'gpustack-fleet:'*) printf '%s\n' "$held" | grep -q "^$node:" || scontrol update NodeName="$node" State=RESUME ;;
        esac
    done
[ -z "${SLURM_JOB_ID:-}" ] || [ -z "$held" ]
