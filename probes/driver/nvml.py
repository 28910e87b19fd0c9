"""NVML, the driver's management library: whether it loads and initialises, which file it is, and its versions."""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Facts, Host

QUESTIONS = (
    ("driver_version", "nvmlSystemGetDriverVersion"),
    ("cuda_version", "nvmlSystemGetCudaDriverVersion_v2"),
    ("gpu_count", "nvmlDeviceGetCount"),
)


def probe(host: "Host") -> "Answer":
    shared = host.shared("nvml.py")
    try:
        if not shared["there"](host):
            return None
    except OSError as error:
        return {"status": "failed", "code": None, "code_name": None, "error": str(error)}
    nvml = shared["Nvml"](host)
    facts = {"path": next(iter(host.mapped("libnvidia-ml.so")), None), "code": 0, "code_name": "NVML_SUCCESS"}  # type: Facts
    try:
        nvml.library.call("nvmlInit")
    except Exception as error:  # noqa: BLE001 - an error of NVML is known by its number, not by a class at hand
        facts.update(refusal(error), error=nvml.library.words(error))
    # Its own version is reported even if its initialisation failed: nvidia-smi prints it beside a mismatch.
    reading = {"nvml_version": nvml.ask("nvmlSystemGetNVMLVersion")}
    if facts["code"] == 0:
        reading.update((fact, nvml.ask(function)) for fact, function in QUESTIONS)
    facts.update((fact, value) for fact, (value, _) in reading.items())
    facts["unavailable"] = {fact: why for fact, (_, why) in reading.items() if why}
    return dict(facts, version=facts.get("driver_version"))


def refusal(error: Exception) -> "Facts":
    """Return the name of NVML's error: the class NVMLError_DriverNotLoaded stands for NVML_ERROR_DRIVER_NOT_LOADED."""
    kind = type(error).__name__.partition("NVMLError_")[2]
    name = "NVML_ERROR" + re.sub("[A-Z]", lambda letter: "_" + letter.group(), kind).upper() if kind else None
    return {"status": "failed", "code": getattr(error, "value", None), "code_name": name}
