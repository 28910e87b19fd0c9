"""The model in ONNX Runtime, and any ONNX file: session, inputs bound to the device, and its own profile by node.

The inputs of a user's file are random by their declared shapes, axes without a size being 1.
"""

import importlib
import json
import math
import os
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional

PASSES, LONG = 5, 2.0  # a pass that takes more seconds is enough
GPU = ("CUDAExecutionProvider", "ROCMExecutionProvider", "MIGraphXExecutionProvider")
WORDS = "Specified provider '%s' is not in available provider names. Available providers: '%s'"  # as it warns itself
SEED = 20261121
MOST = 1 << 31  # numbers in all inputs: what is larger is a mistake in the file, or would fill the memory
KINDS = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int16)": "int16",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}


class Run:
    """One ONNX model in ONNX Runtime; ``given`` are its inputs by name."""

    def __init__(self, asked: Dict[str, Any], teller: Any) -> None:
        self.teller, self.asked = teller, asked
        begun = time.perf_counter()
        self.ort = importlib.import_module("onnxruntime")
        self.np = importlib.import_module("numpy")
        version = str(self.ort.__version__)
        teller.figure("imported", time.perf_counter() - begun, "s", "onnxruntime " + version)
        teller.say("framework", name="onnxruntime", version=version, file=self.ort.__file__)
        self.available = list(self.ort.get_available_providers())
        self.provider = next((one for one in GPU if one in self.available), None)
        self.profile = tempfile.mkdtemp()

    def session(self, model: Any, provider: Optional[str]) -> Any:
        """Return a session on this provider, with its profile into a folder of ours."""
        options = self.ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(self.profile, "profile")
        options.log_severity_level = 3
        plain = [provider, "CPUExecutionProvider"] if provider else ["CPUExecutionProvider"]
        if provider == "CUDAExecutionProvider":
            exact = [(provider, {"use_tf32": "0"}), "CPUExecutionProvider"]  # fp32 is fp32 here
            try:
                return self.ort.InferenceSession(model, options, providers=exact)
            except (RuntimeError, ValueError):
                pass  # before 1.18 it does not know the option; what else is wrong shows below
        return self.ort.InferenceSession(model, options, providers=plain)

    def why_no_gpu(self) -> str:
        """Return why there is no GPU; nothing where a provider for one is there."""
        return "" if self.provider else WORDS % (GPU[0], ", ".join(self.available))

    def bound(self, session: Any, given: Any, device: str) -> Any:
        """Return a binding with the inputs on the device and the outputs where they are made."""
        binding = session.io_binding()
        for name, array in given.items():
            binding.bind_ortvalue_input(name, self.ort.OrtValue.ortvalue_from_numpy(array, device, 0))
        for one in session.get_outputs():
            binding.bind_output(one.name, device, 0)
        return binding

    def copies(self, given: Any) -> None:
        """Step 2: the inputs go to the device; the weights follow when the session is made."""
        size = sum(array.nbytes for array in given.values())
        begun = time.perf_counter()
        for array in given.values():
            self.ort.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
        seconds = max(time.perf_counter() - begun, 1e-9)
        self.teller.figure(
            "input copied from pageable memory", size / seconds / 1e9, "GB/s", "by the clock of the host"
        )
        self.teller.why.append("the weights are copied in step 3, when the session is made")

    def made(self, model: Any, provider: Optional[str]) -> Any:
        """Make the session; fail where the provider that was asked for is not the one that is used."""
        begun = time.perf_counter()
        session, said = overheard(lambda: self.session(model, provider))
        self.teller.figure(
            "session made", time.perf_counter() - begun, "s", "graph optimised, kernels chosen, weights copied"
        )
        used = session.get_providers()
        self.teller.say("providers", used=used, available=self.available)
        if provider and provider not in used:
            said = said or provider + " was asked for and is not used"
            raise RuntimeError(said + "; onnxruntime fell back to " + ", ".join(used))
        return session

    def passes(self, session: Any, binding: Any) -> Any:
        """Run some passes; give the seconds of the middle one."""
        times = []
        for _ in range(PASSES):
            begun = time.perf_counter()
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()
            times.append(time.perf_counter() - begun)
            if times[-1] > LONG:
                break
        middle = sorted(times)[len(times) // 2]
        self.teller.figure("first pass", times[0], "s", "by the clock of the host")
        self.teller.figure("one pass", middle, "s", "by the clock of the host, median of %d" % len(times))
        return middle

    def nodes(self, session: Any) -> Any:
        """Return the median time of each node from the profile, in the order in which they run."""
        path = session.end_profiling()
        with open(path, encoding="utf-8") as file:
            events = json.load(file)
        os.unlink(path)
        times: Dict[str, List[float]] = {}
        told: Dict[str, Any] = {}
        for one in events:
            if one.get("cat") == "Node" and one["name"].endswith("_kernel_time"):
                name = one["name"][: -len("_kernel_time")]
                times.setdefault(name, []).append(one["dur"] / 1e6)
                told[name] = one.get("args", {})
        return [
            {
                "name": name,
                "seconds": sorted(each)[len(each) // 2],
                "op": told[name].get("op_name", "?"),
                "provider": told[name].get("provider", "?"),
                "shapes_in": shapes(told[name].get("input_type_shape")),
                "shapes_out": shapes(told[name].get("output_type_shape")),
                "bytes_read": number(told[name].get("activation_size")) + number(told[name].get("parameter_size")),
                "bytes_written": number(told[name].get("output_size")),
            }
            for name, each in times.items()
        ]

    def write(self, answer: Any) -> None:
        """Write the numbers as float32."""
        self.teller.write(self.asked["output"], self.np.ascontiguousarray(answer, self.np.float32))


def overheard(work: Callable[[], Any]) -> Any:
    """Do some work; give what it gives, and the last error that the library wrote to standard error meanwhile."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            done = work()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        lines = file.read().decode("utf-8", "replace").splitlines()
    errors = [line.strip() for line in lines if "error" in line.lower() or "fail" in line.lower()]
    return done, (errors or [""])[-1][:500]


def shapes(told: Any) -> Any:
    """Return the shapes of a node's tensors from its profile: [{"float": [64, 256]}, ...]."""
    if not isinstance(told, list):
        return []
    return [size for one in told if isinstance(one, dict) for size in one.values()]


def number(told: Any) -> Any:
    """Return a number that the profile writes as a text."""
    return int(told) if str(told).isdigit() else 0


def steps(run: Any, model: Any, given: Any, take: Callable[..., None]) -> None:
    """Go steps 2 to 7 of any model; ``take`` is given the nodes, and then the outputs."""
    teller = run.teller
    teller.step(2)
    why = run.why_no_gpu()
    if why:
        teller.why.append(why)
        teller.done("no-gpu")
    else:
        run.copies(given)
        teller.done()
    teller.step(5 if why else 3)
    session = run.made(model, None if why else run.provider)
    if not why:
        teller.done()
        teller.step(4)
    binding = run.bound(session, given, "cpu" if why else "cuda")
    run.passes(session, binding)
    if not why:
        teller.why.append("onnxruntime starts the kernels of its provider: their grids are not reported")
        teller.done()
        teller.step(5)
    take(run.nodes(session), None)
    teller.done()
    teller.step(6)
    begun = time.perf_counter()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    teller.figure("one pass", time.perf_counter() - begun, "s", "by the clock of the host")
    teller.done()
    if why:
        take(None, binding.copy_outputs_to_cpu())
        return
    teller.step(7)
    begun = time.perf_counter()
    outputs = binding.copy_outputs_to_cpu()
    seconds = max(time.perf_counter() - begun, 1e-9)
    teller.figure("copied back", sum(one.nbytes for one in outputs) / seconds / 1e9, "GB/s", "this once")
    take(None, outputs)
    teller.done()


def drawn(np: Any, wanted: Any) -> Any:
    """Return random inputs for these declarations, and in words what was assumed."""
    chosen, assumed, given, total = np.random.RandomState(SEED), [], {}, 0
    for one in wanted:
        if one.type not in KINDS:
            raise ValueError("input %s is a %s, which cannot be generated" % (one.name, one.type))
        shape = [size if isinstance(size, int) and size > 0 else 1 for size in one.shape]
        free = [str(size) for size in one.shape if not (isinstance(size, int) and size > 0)]
        if free:
            assumed.append("%s: %s taken as 1" % (one.name, ", ".join(free)))
        kind = np.dtype(KINDS[one.type])
        total += math.prod(shape)
        if total > MOST:
            raise ValueError("input %s is %s: too large to be generated" % (one.name, " x ".join(map(str, shape))))
        numbers = chosen.standard_normal(shape) if kind.kind == "f" else chosen.randint(0, 2, shape)
        given[one.name] = np.asarray(numbers, kind)
    return given, assumed


def follow(asked: Dict[str, Any], teller: Any, sibling: Callable[[str], Any]) -> None:
    """Go the seven steps with a built-in model, or with a user's file."""
    teller.step(1)
    run = Run(asked, teller)
    if asked.get("onnx"):
        follow_file(run, teller)
        return
    begun = time.perf_counter()
    np, draws, model = run.np, sibling("traced_model"), asked["model"]
    arrays = {
        one["name"]: draws.with_numpy(one, model["seed"], np)
        for one in model["tensors"]
        if one["role"] in ("weight", "input")
    }
    entry = next(one["name"] for one in model["tensors"] if one["role"] == "input")
    given = {"x": arrays.pop(entry)}
    teller.figure("numbers made", time.perf_counter() - begun, "s")
    begun = time.perf_counter()
    data = sibling("traced_graph").written(np, model, arrays)
    teller.figure("written as ONNX", time.perf_counter() - begun, "s", "%.1f MB" % (len(data) / 1e6))
    teller.done()

    def take(nodes: Any, outputs: Any) -> None:
        if nodes is not None:
            times: Dict[str, float] = {}
            for one in nodes:
                layer = one["name"].partition("|")[0]
                times[layer] = times.get(layer, 0.0) + one["seconds"]
            rows = [{"name": op["name"], "seconds": times.get(op["name"])} for op in model["ops"]]
            teller.say("layers", rows=rows, device="cpu" if run.provider is None else "cuda", nodes=len(nodes))
            if any(one["seconds"] is None for one in rows):
                teller.why.append("onnxruntime joined layers: one without a time is in the node of another")
        if outputs is not None:
            run.write(outputs[0])

    steps(run, data, given, take)


def follow_file(run: Run, teller: Any) -> None:
    """Go the seven steps with a user's file."""
    begun = time.perf_counter()
    plain = run.ort.SessionOptions()
    plain.log_severity_level = 3
    reader = run.ort.InferenceSession(run.asked["onnx"], plain, providers=["CPUExecutionProvider"])
    wanted = reader.get_inputs()
    outputs = [one.name for one in reader.get_outputs()]
    given, assumed = drawn(run.np, wanted)
    del reader
    teller.figure("model read, inputs generated", time.perf_counter() - begun, "s")
    teller.why.extend(assumed)
    shapes = {name: list(array.shape) for name, array in given.items()}
    teller.say("file", inputs=shapes, outputs=outputs, input_bytes=sum(array.nbytes for array in given.values()))
    teller.done()

    def take(nodes: Any, outs: Any) -> None:
        if nodes is not None:
            teller.say("nodes", rows=nodes)
        if outs is not None:
            finite = all(bool(run.np.isfinite(one).all()) for one in outs if one.dtype.kind == "f")
            teller.say("outputs", shapes=[list(one.shape) for one in outs], finite=finite)

    steps(run, run.asked["onnx"], given, take)
