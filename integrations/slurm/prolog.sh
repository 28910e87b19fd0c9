#!/bin/sh
# Prolog: a job that would start on a sick node is queued again, and the node is drained with our reason.
# 75 is node.sh's word for a proven fault. Slurm drains on any other failure too: a hook that is broken must not fail.
"$(dirname "$0")/node.sh" prolog
[ $? -ne 75 ]
