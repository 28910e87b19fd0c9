#!/bin/sh
# Epilog: if a job leaves a faulty node behind, the node is drained before the next job starts.
"$(dirname "$0")/node.sh" epilog
exit 0
