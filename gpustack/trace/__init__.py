"""A model followed through the machine, step by step: built-in models, their reference on the CPU, and their runners.

The seven steps have their numbers and names in ``steps.NAMES``. What runs them has a function ``follow(asked,
progress)`` that gives a ``Trace``: ``following`` on the CPU with numpy, ``gpu`` on a GPU through cuda-python,
``frameworks`` in the target's Python. Each raises NothingSeenError if it has nothing to run on; a step that goes wrong
is a failed step and a finding. Wall time is that of the single pass, without repeats for figures and without the
reference.
"""
