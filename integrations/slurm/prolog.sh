#!/bin/sh
# Prolog: a job that would start on a sick node is queued again, and the node is drained with our reason.
exec "$(dirname "$0")/node.sh" prolog
