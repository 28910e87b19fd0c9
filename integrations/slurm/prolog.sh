#!/bin/sh
# Prolog: a job that would start on a faulty node is requeued, and the node is drained with our reason.
# 75 is node.sh's exit code for a proven fault. Slurm drains on any other failure too, so a broken hook must not fail.
"$(dirname "$0")/node.sh" prolog
[ $? -ne 75 ]
