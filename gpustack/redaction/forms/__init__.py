"""The table of what redaction takes out: each form with its kinds, its context, examples and what stays."""
