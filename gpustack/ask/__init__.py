"""Questions to the compatibility matrix: do these work together, why, what else would, and what the matrix states."""
