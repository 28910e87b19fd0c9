"""The programs that write ``compat-matrix/generated/`` from primary sources."""
