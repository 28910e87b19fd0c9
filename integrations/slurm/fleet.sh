#!/bin/sh
# Drain nodes that the last `gpustack fleet judge` found broken, missing or slow, and resume those that have recovered.
# Called as: fleet.sh [STORE], as HealthCheckProgram, as Prolog, or by cron on the controller for all nodes at once; without
# STORE it uses fleet_store from settings.sh. It drains with the reason "gpustack-fleet: ..." and resumes only nodes
# with that reason. A store that cannot be read changes nothing.
# Exit status: 1 in a prolog whose node is held back, so that Slurm requeues the job; else 0.
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
        *drain* | down* | '') ;; # already drained or down, or unknown to Slurm
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
