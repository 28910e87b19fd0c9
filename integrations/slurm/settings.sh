# shellcheck shell=sh disable=SC2034
# Settings of the gpustack hooks, read by node.sh from its own folder. Slurm passes neither PATH nor SLURM_CONF.
# A mistake in here drains no node: the check is skipped, and /var/log/gpustack-slurm.log on the node says why.
# $mode is health, prolog or epilog, and $node the name of the node.

gpustack=/opt/gpustack/bin/gpustack
drain_on='bad-host'  # add bad-environment if administrators manage the node's Python; unknown to drain nodes that hang
check_seconds=40     # for the check itself, 40 at most: the hook has 55 s, and Slurm kills a health check after 60 s
fleet_store=/shared/nodes/fleet.sqlite # what `gpustack fleet judge` writes, for fleet.sh
export SLURM_CONF="${SLURM_CONF:-/etc/slurm/slurm.conf}"

# What is checked. Jobs may be running during a health check, so nothing is measured here. The required number of GPUs
# is read from the node's GRES (Gres=gpu:h200:8 is eight, without gpu none); --gpus N here takes precedence.
set -- --no-bench
# set -- --no-bench --policy /etc/gpustack/gpustack.toml
# [ "$mode" = epilog ] && set -- --policy /etc/gpustack/gpustack.toml   # measures after the job has ended
