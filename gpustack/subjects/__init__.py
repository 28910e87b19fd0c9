"""What the compatibility matrix states of one subject after another: a module a subject, its rows as types.

A module holds frozen types and functions that take the matrix and give rows: ``matrix.rows("cudnn", "releases", …)``.
Each file under ``compat-matrix/`` names in its head the components (``subjects``) that it is about.
"""
