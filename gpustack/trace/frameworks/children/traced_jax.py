"""The model in JAX: compiled by XLA as a whole, and layer by layer; on the CPU where it sees no GPU."""

import importlib
import logging
import os
import time
from typing import Any, Callable, Dict, List

PASSES = 5


class Warned(logging.Handler):
    """Keeps the first line of each warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: List[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.lines += record.getMessage().strip().splitlines()[:1]


class Ops:
    """What each kind of layer is in jax.numpy; each gives the tensors that it writes."""

    def __init__(self, jax: Any) -> None:
        self.jax, self.np = jax, jax.numpy

    def gemm(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """Multiply: x times w transposed."""
        return {op["out"]: held[op["source"]] @ held[op["weight"]].T}

    def bias(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The bias, and what is applied after it."""
        out = held[op["source"]] + held[op["bias"]]
        if op["activation"] == "relu":
            out = self.jax.nn.relu(out)
        elif op["activation"] == "gelu":
            out = self.jax.nn.gelu(out, approximate=True)
        return {op["out"]: out}

    def conv2d(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """A convolution of images with their channels last."""
        order = ("NHWC", "OHWI", "NHWC")
        given = held[op["source"]], held[op["weight"]], (1, 1), "SAME"
        return {op["out"]: self.jax.lax.conv_general_dilated(*given, dimension_numbers=order)}

    def pool(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The largest of 2 x 2, or the mean of a channel."""
        source = held[op["source"]]
        if op["how"] == "mean":
            return {op["out"]: source.mean(axis=(1, 2))}
        images, high, broad, deep = source.shape
        return {op["out"]: source.reshape(images, high // 2, 2, broad // 2, 2, deep).max(axis=(2, 4))}

    def layernorm(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """Each row with mean 0 and variance 1, in float32."""
        source = held[op["source"]].astype(self.np.float32)
        centred = source - source.mean(axis=-1, keepdims=True)
        spread = self.np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + op["epsilon"])
        out = centred / spread * held[op["gamma"]] + held[op["beta"]]
        return {op["out"]: out.astype(held[op["source"]].dtype)}

    def split_heads(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """q, k and v by head, v transposed."""
        source = held[op["source"]]
        depth = source.shape[1] // 3 // op["heads"]
        split = source.reshape(-1, op["sequence"], 3, op["heads"], depth).transpose(2, 0, 3, 1, 4)
        q, k, v = (one.reshape(-1, op["sequence"], depth) for one in split)
        return {op["q"]: q, op["k"]: k, op["v"]: v.transpose(0, 2, 1)}

    def head_gemm(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The products of attention."""
        return {op["out"]: held[op["left"]] @ held[op["right"]].transpose(0, 2, 1)}

    def softmax(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """Softmax of each row, without what lies after it."""
        source = held[op["source"]]
        scaled = source.astype(self.np.float32) * op["scale"]
        if op["causal"]:
            seen = self.np.tri(*scaled.shape[-2:], dtype=bool)
            scaled = self.np.where(seen, scaled, -self.np.inf)
        return {op["out"]: self.jax.nn.softmax(scaled, axis=-1).astype(source.dtype)}

    def merge_heads(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The heads side by side again."""
        source = held[op["source"]]
        every, sequence, depth = source.shape
        split = source.reshape(every // op["heads"], op["heads"], sequence, depth).transpose(0, 2, 1, 3)
        return {op["out"]: split.reshape(-1, op["heads"] * depth)}

    def residual(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The sum of two."""
        return {op["out"]: held[op["left"]] + held[op["right"]]}

    def do(self, op: Dict[str, Any], held: Dict[str, Any]) -> Dict[str, Any]:
        """Return what one layer writes."""
        written: Dict[str, Any] = getattr(self, op["kind"].replace(" ", "_"))(op, held)
        return written


class Run:
    """One model in JAX on one device."""

    def __init__(self, asked: Dict[str, Any], teller: Any, sibling: Callable[[str], Any]) -> None:
        self.model, self.teller, self.sibling = asked["model"], teller, sibling
        self.output = asked["output"]
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes three quarters of the memory
        begun = time.perf_counter()
        self.jax = importlib.import_module("jax")
        version = str(self.jax.__version__)
        teller.figure("imported", time.perf_counter() - begun, "s", "jax " + version)
        teller.say("framework", name="jax", version=version, file=self.jax.__file__)
        if self.model["precision"] == "fp32":
            self.jax.config.update("jax_default_matmul_precision", "highest")  # fp32 is fp32 here, and no TF32
        self.ops = Ops(self.jax)
        self.device: Any = None
        self.held: Dict[str, Any] = {}

    def numbers(self) -> None:
        """Step 1."""
        begun = time.perf_counter()
        np, draws = importlib.import_module("numpy"), self.sibling("traced_model")
        names = {"fp32": np.float32, "fp16": np.float16, "bf16": self.jax.numpy.bfloat16}
        kind = names[self.model["precision"]]
        for one in self.model["tensors"]:
            if one["role"] in ("weight", "input"):
                self.held[one["name"]] = draws.with_numpy(one, self.model["seed"], np).astype(kind)
        self.size = sum(one.nbytes for one in self.held.values())
        self.teller.figure("numbers made", time.perf_counter() - begun, "s")
        self.teller.figure("weights and input", self.size / 1e6, "MB", "as " + self.model["precision"])

    def copies(self) -> Any:
        """Step 2; where JAX sees no GPU, it says why, in its error or in what it warns of meanwhile."""
        warned = Warned()
        logging.getLogger("jax").addHandler(warned)
        try:
            self.device = self.jax.devices("gpu")[0]
        except RuntimeError as error:
            self.device = self.jax.devices("cpu")[0]
            self.put()
            return "; ".join([(str(error).strip().splitlines() or [""])[0], *warned.lines])
        capability = str(getattr(self.device, "compute_capability", "")).split(".")
        self.teller.say("gpu", name=self.device.device_kind, capability=capability)
        opened = self.put()
        self.teller.figure("first copy", opened, "s", "the GPU's memory is taken for it")
        seconds = self.put()
        self.teller.figure("copied from pageable memory", self.size / seconds / 1e9, "GB/s", "by the clock of the host")
        return None

    def put(self) -> Any:
        """Put all on the device; give the seconds."""
        given = self.held if self.size else {}
        begun = time.perf_counter()
        self.there = self.jax.block_until_ready(self.jax.device_put(given, self.device))
        return max(time.perf_counter() - begun, 1e-9)

    def whole(self, held: Dict[str, Any]) -> Any:
        """Return the output of one pass."""
        held = dict(held)
        for op in self.model["ops"]:
            held.update(self.ops.do(op, held))
        return held[self.model["out"]]

    def ready(self) -> None:
        """Step 3: XLA compiles the whole."""
        begun = time.perf_counter()
        lowered = self.jax.jit(self.whole).lower(self.there)
        traced = time.perf_counter()
        self.compiled = lowered.compile()
        self.teller.figure("traced and lowered", traced - begun, "s")
        self.teller.figure("compiled by XLA", time.perf_counter() - traced, "s")

    def run(self) -> None:
        """Step 4: the compiled program, once cold and once warm."""
        for name in ("first run", "one pass, compiled"):
            begun = time.perf_counter()
            self.jax.block_until_ready(self.compiled(self.there))
            self.teller.figure(name, time.perf_counter() - begun, "s", "by the clock of the host")
        self.teller.why.append("XLA joins layers into kernels of its own: their grids are not reported")

    def layers(self) -> None:
        """Step 5: each layer compiled alone, since the whole is no longer made of layers."""
        held, rows = dict(self.there), []
        for op in self.model["ops"]:
            work = self.jax.jit(lambda given, op=op: self.ops.do(op, given))
            names = [op[name] for name in ("source", "left", "right", "weight", "bias", "gamma", "beta") if name in op]
            given = {name: held[name] for name in names}
            written = self.jax.block_until_ready(work(given))
            times = []
            for _ in range(PASSES):
                begun = time.perf_counter()
                self.jax.block_until_ready(work(given))
                times.append(time.perf_counter() - begun)
                if times[-1] > 1:
                    break
            held.update(written)
            rows.append({"name": op["name"], "seconds": sorted(times)[len(times) // 2]})
        kind = "cpu" if self.device.platform == "cpu" else "cuda"
        self.teller.say("layers", rows=rows, device=kind)
        self.teller.figure(
            "layers one after the other", sum(one["seconds"] for one in rows), "s", "each compiled alone"
        )
        self.teller.why.append(
            "times of layers include the host's share: each was compiled, started and awaited separately"
        )

    def out(self) -> None:
        """Step 6."""
        if not hasattr(self, "compiled"):
            self.compiled = self.jax.jit(self.whole)
        begun = time.perf_counter()
        self.answer = self.jax.block_until_ready(self.compiled(self.there))
        self.teller.figure("one pass, compiled", time.perf_counter() - begun, "s", "by the clock of the host")
        self.teller.figure("output", self.answer.nbytes / 1e6, "MB", str(tuple(self.answer.shape)))

    def back(self) -> None:
        """Step 7."""
        np = importlib.import_module("numpy")
        begun = time.perf_counter()
        answer = np.asarray(self.answer)
        seconds = max(time.perf_counter() - begun, 1e-9)
        self.teller.figure("copied back", answer.nbytes / seconds / 1e9, "GB/s", "this once")
        self.write(answer)

    def write(self, answer: Any) -> None:
        """Write the numbers as float32."""
        np = importlib.import_module("numpy")
        self.teller.write(self.output, np.ascontiguousarray(np.asarray(answer).astype(np.float32)))


def follow(asked: Dict[str, Any], teller: Any, sibling: Callable[[str], Any]) -> None:
    """Go the seven steps; where there is no GPU, those that need none."""
    teller.step(1)
    run = Run(asked, teller, sibling)
    run.numbers()
    teller.done()
    teller.step(2)
    why = run.copies()
    if why:
        teller.why.append(why)
        teller.done("no-gpu")
        teller.through((5, run.layers), (6, run.out))
        run.write(run.answer)
    else:
        teller.done()
        teller.through((3, run.ready), (4, run.run), (5, run.layers), (6, run.out), (7, run.back))
