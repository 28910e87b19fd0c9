#!/bin/sh
# Epilog: a job that leaves a sick node behind has it drained before the next one starts.
exec "$(dirname "$0")/node.sh" epilog
