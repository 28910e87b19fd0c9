"""A model followed through the machine, step by step: built-in models, their truth on the CPU, and what runs them.

The seven steps have their numbers and names in ``steps.NAMES``. What runs them has a function ``follow(asked,
progress)`` that gives a ``Trace``: ``following`` on the CPU with numpy, ``gpu`` on a GPU through cuda-python,
``frameworks`` in the target's Python. Each raises NothingSeenError where it has nothing to run on; a step that goes
wrong is a failed step and a finding. Wall time is that of the one pass; what is repeated for a figure, and the truth,
is not in it.
"""
