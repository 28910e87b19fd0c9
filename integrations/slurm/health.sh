#!/bin/sh
# HealthCheckProgram: Slurm ends it at 60 s, ignores its exit code, and runs it at the start of slurmd too.
exec "$(dirname "$0")/node.sh" health
