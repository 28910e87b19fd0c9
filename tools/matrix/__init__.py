"""Programs that generate ``compat-matrix/generated/`` from primary sources."""
