# shellcheck shell=sh disable=SC2034
# Settings of the gpustack hooks, read by node.sh from its own folder. Slurm hands over neither PATH nor SLURM_CONF.
# A mistake in here drains no node: the check is left out, and /var/log/gpustack-slurm.log of the node says why.
# $mode is health, prolog or epilog, and $node the name of the node.

gpustack=/opt/gpustack/bin/gpustack
drain_on='bad-host'  # add bad-environment where the node's Python is the administrator's; unknown to drain what hangs
check_seconds=40     # for the check itself, 40 at most: the hook has 55 s, and Slurm ends a health check at 60 s
fleet_store=/shared/nodes/fleet.sqlite # what `gpustack fleet judge` writes, for fleet.sh
export SLURM_CONF="${SLURM_CONF:-/etc/slurm/slurm.conf}"

# What is checked. Jobs may be running beside a health check, so nothing is measured here. How many GPUs there must be is
# read from the node's GRES (Gres=gpu:h200:8 is eight, no gpu in it is none); --gpus N here goes before.
set -- --no-bench
# set -- --no-bench --policy /etc/gpustack/gpustack.toml
# [ "$mode" = epilog ] && set -- --policy /etc/gpustack/gpustack.toml   # measures when the job has gone
