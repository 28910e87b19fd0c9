"""Questions to the compatibility matrix: does this go with that, why, what else would, and what is stated of it."""
