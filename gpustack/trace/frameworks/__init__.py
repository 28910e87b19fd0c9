"""The same model in a framework of the target's Python: a child runs it there, and we show what it really loaded.

``children`` holds programs for the target's Python (3.8 syntax, the standard library and the framework); ``following``
starts one and listens, ``heard`` makes a trace of it, ``chain`` the way from the script down to the kernel, and
``refused`` hands the words of what failed to the judge.
"""

from gpustack.trace.frameworks.following import follow

__all__ = ["follow"]
