"""The model in PyTorch: eager, layer by layer between events, and as a CUDA graph; on the CPU where it sees no GPU."""

import importlib
import json
import os
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional

PASSES = 5


class Run:
    """One model in torch on one device."""

    def __init__(self, asked: Dict[str, Any], teller: Any, sibling: Callable[[str], Any]) -> None:
        self.model, self.teller, self.sibling = asked["model"], teller, sibling
        self.output = asked["output"]
        begun = time.perf_counter()
        self.torch = importlib.import_module("torch")
        teller.figure("imported", time.perf_counter() - begun, "s", "torch " + str(self.torch.__version__))
        built = {"cuda": self.torch.version.cuda, "hip": getattr(self.torch.version, "hip", None)}
        teller.say("framework", name="torch", version=str(self.torch.__version__), file=self.torch.__file__, **built)
        kind = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[self.model["precision"]]
        self.kind = getattr(self.torch, kind)
        self.torch.backends.cuda.matmul.allow_tf32 = False  # fp32 is fp32 here
        self.torch.backends.cudnn.allow_tf32 = False
        for short in ("fp16", "bf16"):  # sums stay in fp32, as ours do
            setattr(self.torch.backends.cuda.matmul, "allow_%s_reduced_precision_reduction" % short, False)
        self.ops = sibling("traced_torch_ops").Ops(self.torch, self.model["tensors"])
        self.cuda = False
        self.held: Dict[str, Any] = {}

    def settle(self) -> None:
        """Wait for the GPU."""
        if self.cuda:
            self.torch.cuda.synchronize()

    def whole(self, tell: Optional[Callable[[], Any]] = None) -> Any:
        """Run one pass; ``tell`` is called after every layer."""
        held = dict(self.held)
        for op in self.model["ops"]:
            self.ops.do(op, held)
            if tell:
                tell()
        return held[self.model["out"]]

    def numbers(self) -> None:
        """Step 1."""
        begun = time.perf_counter()
        given = [one for one in self.model["tensors"] if one["role"] in ("weight", "input")]
        self.held = {one["name"]: self.made(one).to(self.kind) for one in given}
        self.size = sum(one.numel() * one.element_size() for one in self.held.values())
        self.teller.figure("numbers made", time.perf_counter() - begun, "s")
        self.teller.figure("weights and input", self.size / 1e6, "MB", "as " + self.model["precision"])

    def made(self, tensor: Dict[str, Any]) -> Any:
        """Return the numbers of a tensor, by NumPy where torch can take them from there."""
        draws, seed = self.sibling("traced_model"), self.model["seed"]
        try:
            return self.torch.from_numpy(draws.with_numpy(tensor, seed, importlib.import_module("numpy")))
        except (ImportError, RuntimeError):
            return draws.with_torch(tensor, seed, self.torch)

    def copies(self) -> Any:
        """Step 2; where torch sees no GPU, it says why."""
        torch = self.torch
        if not torch.cuda.is_available():
            return self.refused()
        begun = time.perf_counter()
        torch.cuda.init()
        self.cuda = True
        self.teller.say("gpu", name=torch.cuda.get_device_name(0), capability=list(torch.cuda.get_device_capability(0)))
        torch.empty(1, device="cuda")
        self.teller.figure("GPU opened", time.perf_counter() - begun, "s", "CUDA's context, and torch's own start")
        seconds = self.timed(lambda: [one.to("cuda") for one in self.held.values()])
        self.teller.figure("copied from pageable memory", self.size / seconds / 1e9, "GB/s", "this once, by events")
        pinned = {name: one.pin_memory() for name, one in self.held.items()}
        made = {}
        seconds = self.timed(
            lambda: made.update({name: one.to("cuda", non_blocking=True) for name, one in pinned.items()})
        )
        self.teller.figure("copied from pinned memory", self.size / seconds / 1e9, "GB/s", "this once, by events")
        self.held = made
        return None

    def refused(self) -> Any:
        """Return why torch sees no GPU, in its own words."""
        try:
            self.torch.zeros(1).cuda()
        except Exception as error:  # noqa: BLE001 - its words are what is asked for
            return type(error).__name__ + ": " + (str(error).strip().splitlines() or [""])[0]
        return "torch.cuda.is_available() is False"

    def timed(self, work: Callable[[], Any]) -> Any:
        """Return the seconds of some work: by events on a GPU, else by the clock."""
        if not self.cuda:
            begun = time.perf_counter()
            work()
            return time.perf_counter() - begun
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        return max(begin.elapsed_time(end) / 1000, 1e-9)

    def ready(self) -> None:
        """Step 3: the first pass loads and allocates, and the graph is captured."""
        begun = time.perf_counter()
        self.whole()
        self.settle()
        self.teller.figure("first pass", time.perf_counter() - begun, "s", "code is loaded, memory allocated")
        torch = self.torch
        if torch.backends.cudnn.is_available():
            torch.backends.cudnn.benchmark = True  # ways of the convolutions are tried, as ours are
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.whole()
        torch.cuda.current_stream().wait_stream(stream)
        begun = time.perf_counter()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.answer = self.whole()
        self.teller.figure("CUDA graph captured and instantiated", time.perf_counter() - begun, "s")
        held = torch.cuda.memory_allocated()
        self.teller.figure("device memory in use", held / 1e6, "MB", "by torch's allocator")

    def kernels(self) -> None:
        """Step 4: one pass under torch's own profiler, which knows each kernel."""
        seconds = self.timed(self.whole)
        self.teller.figure("one pass, eager, on the GPU", seconds, "s", "by events")
        begun = time.perf_counter()
        self.whole()
        self.settle()
        self.teller.figure("one pass, eager", time.perf_counter() - begun, "s", "by the clock of the host")
        begun = time.perf_counter()
        try:
            rows = self.profiled()
        except Exception as error:  # noqa: BLE001 - a profiler that does not work costs the rows, no more
            self.teller.why.append("torch's profiler reported nothing: " + str(error)[:200])
            return
        self.teller.figure("one pass under torch's profiler", time.perf_counter() - begun, "s", "with its start")
        self.teller.figure("kernels", len(rows), "")
        self.teller.say("kernels", rows=rows)

    def profiled(self) -> Any:
        """Return a row for each kernel."""
        profiler = self.torch.profiler
        mark = profiler.record_function
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]) as seen:
            held = dict(self.held)
            for op in self.model["ops"]:
                with mark("layer:" + op["name"]):
                    self.ops.do(op, held)
            self.settle()
        handle, path = tempfile.mkstemp(suffix=".json")
        os.close(handle)
        try:
            seen.export_chrome_trace(path)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        finally:
            os.unlink(path)
        return rows_of(events)

    def layers(self) -> None:
        """Step 5: the median time of each layer over some passes."""
        times = []
        for _ in range(PASSES):
            marks = [self.mark()]
            self.whole(lambda: marks.append(self.mark()))  # noqa: B023 - called within this pass
            self.settle()
            times.append([self.between(one, after) for one, after in zip(marks, marks[1:])])  # noqa: RUF007 - from Python 3.10 on
            if len(times) == 1 and sum(times[0]) > 1:
                break
        middle = [sorted(each)[len(each) // 2] for each in zip(*times)]
        rows = [{"name": op["name"], "seconds": each} for op, each in zip(self.model["ops"], middle)]
        self.teller.say("layers", rows=rows, device="cuda" if self.cuda else "cpu")
        self.teller.figure("layers one after the other", sum(middle), "s", "medians of %d passes" % len(times))

    def mark(self) -> Any:
        """Return the time now: an event on a GPU."""
        if not self.cuda:
            return time.perf_counter()
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, one: Any, after: Any) -> Any:
        """Return the seconds between two marks."""
        return one.elapsed_time(after) / 1000 if self.cuda else after - one

    def out(self) -> None:
        """Step 6."""
        if not self.cuda:
            self.answer = self.whole()
        else:
            seconds = self.timed(self.graph.replay)
            self.teller.figure("one pass as a graph, on the GPU", seconds, "s", "by events")
        size = self.answer.numel() * self.answer.element_size()
        self.teller.figure("output", size / 1e6, "MB", str(tuple(self.answer.shape)))

    def back(self) -> None:
        """Step 7: the numbers go to a file, since the parent holds them against the truth."""
        size = self.answer.numel() * self.answer.element_size()
        kept = []
        seconds = self.timed(lambda: kept.append(self.answer.cpu()))
        self.teller.figure("copied back", size / seconds / 1e9, "GB/s", "this once")
        self.write(kept[0])

    def write(self, answer: Any) -> None:
        """Write the numbers as float32, with or without NumPy."""
        plain = answer.float().contiguous().reshape(-1)
        with open(self.output, "wb") as file:
            try:
                file.write(plain.numpy().tobytes())
            except RuntimeError:  # a torch without NumPy
                import array

                array.array("f", plain.tolist()).tofile(file)
        self.teller.say("numbers", file=self.output, count=plain.numel())

    def launching(self) -> None:
        """Say eager beside graph, host and GPU together."""
        self.teller.say(
            "launching",
            eager_seconds=self.repeated(self.whole),
            graph_seconds=self.repeated(self.graph.replay),
            kernels=len(self.model["ops"]),
        )

    def repeated(self, work: Callable[[], Any]) -> Any:
        """Return the seconds of one of many, one after the other."""
        times = []
        for runs in (1, 5, 5, 5):
            self.settle()
            begun = time.perf_counter()
            for _ in range(runs):
                work()
            self.settle()
            times.append((time.perf_counter() - begun) / runs)
        return sorted(times[1:])[1]


def rows_of(events: List[Dict[str, Any]]) -> Any:
    """Return a row for each kernel of a profile in the form of Chrome's traces, with the layer that it belongs to."""
    marks = [one for one in events if one.get("cat") == "gpu_user_annotation" and one["name"].startswith("layer:")]
    rows = []
    for one in sorted((one for one in events if one.get("cat") == "kernel"), key=lambda one: one["ts"]):
        told = one.get("args", {})
        inside = [mark["name"][6:] for mark in marks if mark["ts"] <= one["ts"] <= mark["ts"] + mark["dur"]]
        share = told.get("est. achieved occupancy %")  # 0 where the profiler cannot work it out
        shared = told.get("shared memory")
        rows.append(
            {
                "name": one["name"][:200],
                "layer": inside[-1] if inside else "?",
                "grid": told.get("grid"),
                "block": told.get("block"),
                "registers": told.get("registers per thread"),
                "shared_static": None if shared is None else 0,  # static and dynamic are told as one number
                "shared_dynamic": shared,
                "occupancy": share / 100 if share else None,
                "seconds": one["dur"] / 1e6,
            }
        )
    return rows


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
    else:
        teller.done()
        teller.through((3, run.ready), (4, run.kernels))
    teller.through((5, run.layers), (6, run.out))
    if run.cuda:
        teller.through((7, run.back))
        run.launching()
    else:
        run.write(run.answer)
