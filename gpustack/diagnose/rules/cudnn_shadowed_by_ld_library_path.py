"""LD_LIBRARY_PATH puts another cuDNN before the framework's own.

The loader looks into LD_LIBRARY_PATH before the folders that a wheel names, so the cuDNN there is loaded in the place
of the one that the framework was built and tested with. An older one is refused by PyTorch ("compiled against … but
found runtime version …") or fails later. Take that folder off LD_LIBRARY_PATH: wheels bring what they need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.foreign import (
    OWN,
    cudnn_number,
    lacking,
    loaded,
    off_path,
    path_blamed,
    path_grounds,
    place,
    shadowing,
)
from gpustack.diagnose.rules.libraries import LD_LIBRARY_PATH, evidence, own_version, used
from gpustack.diagnose.rules.reading import table, text, told, version
from gpustack.diagnose.rules.saying import because_said, grounds, heard, value
from gpustack.diagnose.rules.seen import builds
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.foreign import Lacking
    from gpustack.diagnose.rules.libraries import Used
    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

UP_TO_MINOR = 2
LONG = 60  # of a symbol in a title
REFUSED = "cudnn-incompatible"
SPOKEN = "cudnn-older-path-said"
FAILED = ("cudnn-not-initialized", "cudnn-sublibrary-loading")
VERIFY = sh("python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\"")


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each framework whose cuDNN comes from LD_LIBRARY_PATH and is another than its own: an error if older."""
    found = list(_seen(facts))
    yield from found or _said(facts)


def _said(facts: Facts) -> Iterator[Finding]:
    """Give what PyTorch itself says of the cuDNN that it found, or a symbol that this one lacks."""
    yield from _older_first(facts)
    blamed = path_blamed(facts, *(one.file for one in lacking(facts, "cudnn")))
    lack = [one for one in lacking(facts, "cudnn") if _of_the_path(one, blamed=blamed)]
    if not heard(facts, REFUSED, SPOKEN) and not lack:
        yield from _taken(facts)
        return
    built, found = (cudnn_number(value(facts, REFUSED, name)) for name in ("built", "found"))
    torch = f"PyTorch {release}" if (release := version(facts, "pytorch")) else "PyTorch"
    path, where = path_grounds(facts), place(facts, "cudnn")
    yield Finding(
        id="cudnn-shadowed-by-ld-library-path",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component="cudnn",
        title=f"{torch} loads cuDNN {found} in the place of its own {built}"
        if built and found
        else f"{torch} loads another cuDNN than its own{f': it has no {_short(lack[0].symbol)}' if lack else ''}",
        detail=f"PyTorch brings its own cuDNN; another one is found before it, mostly by LD_LIBRARY_PATH"
        f"{f' ({where})' if where else ''}.",
        confidence=Confidence.CERTAIN if path and built else Confidence.LIKELY,
        because=(*grounds(facts, REFUSED, SPOKEN, most=2), *(because_said(one.message) for one in lack[:1]), *path),
        fix=off_path(facts, "cuDNN", sh('python -c "import torch; print(torch.backends.cudnn.version())"')),
    )


def _short(symbol: str) -> str:
    return symbol if len(symbol) <= LONG else f"{symbol[:LONG]}…"


def _of_the_path(one: Lacking, *, blamed: bool) -> bool:
    """Tell whether a framework asked, or a part outside of all wheels did, on the path that is said to be to blame."""
    if "cudnn" in one.asking:
        return blamed and one.file.startswith("/") and not OWN.search(one.file)
    return one.by_a_framework


def _taken(facts: Facts) -> Iterator[Finding]:
    """Give the cuDNN that the loader took from outside the wheels, where cuDNN failed and a wheel brings one."""
    one = next(iter(loaded(facts, "libcudnn")), None)
    held = table(told(facts, "packages"), "distributions")
    wheel = next((name for name in held if name.startswith("nvidia-cudnn")), None)
    if one is None or wheel is None or not heard(facts, *FAILED):
        return
    folder = one.values["path"].rpartition("/")[0]
    yield Finding(
        id="cudnn-shadowed-by-ld-library-path",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component="cudnn",
        title=f"cuDNN is loaded from {folder} in the place of the framework's own ({wheel} {text(held, wheel) or ''})",
        detail="Another cuDNN than the one that it was built with is found first, mostly by LD_LIBRARY_PATH.",
        confidence=Confidence.LIKELY,
        because=(because_said(one), *grounds(facts, *FAILED, most=1), *path_grounds(facts)),
        fix=off_path(facts, "cuDNN", sh('python -c "import torch; print(torch.backends.cudnn.version())"')),
    )


def _older_first(facts: Facts) -> Iterator[Finding]:
    """Give the older cuDNN that TensorFlow or JAX loaded although a wheel brings the one that it was built with."""
    shadowed = shadowing(facts)
    if shadowed is None:
        return
    yield Finding(
        id="cudnn-shadowed-by-ld-library-path",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component="cudnn",
        title=f"cuDNN {shadowed.loaded} is loaded in the place of {shadowed.own}, the framework's own",
        detail=f"It was built with cuDNN {shadowed.built}. Another one is found before its own by LD_LIBRARY_PATH"
        f"{f' ({where})' if (where := place(facts, 'cudnn')) else ''}.",
        confidence=Confidence.LIKELY,
        because=shadowed.because,
        fix=off_path(facts, "cuDNN", VERIFY),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    for build in builds(facts):
        one = used(build, "libcudnn", "cudnn", facts)
        if one is None or one.step != LD_LIBRARY_PATH:
            continue
        own = own_version(build, one, "cudnn", "nvidia-cudnn", facts)
        if own and one.version and numbers(one.version)[:3] != numbers(own)[:3]:
            older = numbers(one.version)[:UP_TO_MINOR] < numbers(own)[:UP_TO_MINOR]
            yield _finding(build, one, own, older=older and not build.ran_on_gpu)


def _finding(build: Build, one: Used, own: str, *, older: bool) -> Finding:
    folder = one.path.rpartition("/")[0]
    return Finding(
        id="cudnn-shadowed-by-ld-library-path",
        instance=build.mark,
        severity=Severity.ERROR if older else Severity.WARNING,
        layer=Layer.LIBRARY,
        component="cudnn",
        title=f"LD_LIBRARY_PATH gives {build.name} cuDNN {one.version} in the place of its own {own}",
        because=(
            evidence(build, "libcudnn", one),
            Because(component="cudnn", fact="version", value=one.version, source=one.path),
            Because(component=build.component, fact="pins", value=own, source="metadata of the wheel"),
        ),
        fix=fixes.off_path([folder], folder, fixes.verify_loaded(build)),
    )
