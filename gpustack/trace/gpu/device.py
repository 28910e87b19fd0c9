"""A model on the card: where its numbers are, what runs its plan, and what the steps leave behind for the figures."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpustack.bench.timing import PATIENCE_NS, WAIT
from gpustack.model import record
from gpustack.trace.gpu.plan import FILE, Launch, Multiply, Plan, Work, number, plan
from gpustack.trace.models import Model, Role
from gpustack.trace.ops import encode

if TYPE_CHECKING:
    from contextlib import ExitStack

    import numpy as np
    from cuda.core import Event, Stream
    from numpy.typing import NDArray

    from gpustack.bench.calls import Calls
    from gpustack.bench.card import Card, Memory
    from gpustack.bench.child import Desk
    from gpustack.bench.cublaslt import Product
    from gpustack.bench.lab import Lab
    from gpustack.trace import Telling
    from gpustack.trace.reference import Array

ALIGNED = 256  # like allocations of the device; kernels and libraries rely on it
WORKSPACE = {9: 32 << 20, 10: 32 << 20, 12: 12 << 20}  # by major capability; as cuBLAS advises
SMALL_WORKSPACE = 4 << 20
LEAST_PART = 16  # of the free memory, available to a workspace
Run = Callable[[], None]


@record
class Arena:
    """Where each weight and the input begins, and the total length; the input is at the end."""

    places: Mapping[str, int]
    sizes: Mapping[str, int]
    size: int

    def place(self, name: str) -> tuple[int, int]:
        """Return where a tensor begins and its size in bytes."""
        return self.places[name], self.sizes[name]


def lay(model: Model) -> Arena:
    """Return the places of the tensors of a model."""
    places, sizes, at = dict[str, int](), dict[str, int](), 0
    for one in (*model.weights, model.input):
        places[one.name], sizes[one.name] = at, one.count * model.width
        at += -(-sizes[one.name] // ALIGNED) * ALIGNED
    return Arena(places=places, sizes=sizes, size=at)


def fill(arena: Arena, model: Model, values: Mapping[str, Array]) -> NDArray[np.uint8]:
    """Return the bytes of all tensors in ordinary memory, in the precision of the model."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    held = np.zeros(arena.size, np.uint8)
    for name, place in arena.places.items():
        raw = encode(np.asarray(values[name], np.float32), model.precision)
        held[place : place + arena.sizes[name]] = raw.reshape(-1).view(np.uint8)
    return held


@dataclass(slots=True, kw_only=True)
class Products:
    """Which way of cuBLASLt computes which product: chosen once by ``choose``, the same on every stream."""

    lab: Lab
    precision: str
    most: int
    ranks: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    library: dict[str, object] = field(default_factory=dict)

    def ways(self, work: Multiply, workspace: Memory, stream: int) -> list[Product]:
        """Return the ways to compute a product, up to the chosen one if there is one; skips if there is none."""
        most = self.ranks.get(work.sizes, self.most - 1) + 1
        types, sizes = (self.precision, self.precision), (work.m, work.n, work.k)
        found, source = self.lab.products(types, sizes, workspace, None, most, batch=work.batch, stream=stream)
        self.library = dict(source)
        return found


@dataclass(slots=True, kw_only=True)
class Runner:
    """One model with its own activation memory, on one stream; the weights are given.

    ``addresses`` are those of all tensors by name; ``runs`` the functions that enqueue one launch each.
    """

    card: Card
    model: Model
    products: Products
    addresses: dict[str, int]
    workspace: Memory
    stream: Stream | None = None
    plan: Plan = field(init=False)
    runs: list[tuple[Work, Run]] = field(default_factory=list)
    chosen: dict[str, Product] = field(default_factory=dict)
    allocated: int = 0

    def __post_init__(self) -> None:
        """Compute the launches."""
        self.plan = plan(self.model)

    def allocate(self, stack: ExitStack) -> None:
        """Allocate the tensors that do not exist yet."""
        sizes = {one.name: one.count for one in self.model.tensors if one.role in {Role.ACTIVATION, Role.OUTPUT}}
        for name, count in (sizes | self.plan.kept | self.plan.scratch).items():
            if name not in self.addresses:
                self.addresses[name] = self.card.allocate(count * self.model.width)
                self.allocated += count * self.model.width
                stack.callback(self.card.release, self.addresses[name])

    def prepare(self, choose: Callable[[Multiply, list[tuple[Product, Run]]], int]) -> None:
        """Prepare every launch; ``choose`` returns the rank of the best of several ways to compute a product.

        Each runs once before the next is prepared, so that ways are tried on realistic numbers.
        """
        self.runs = []
        for work in self.plan.passes:
            run = self.ready(work, choose)
            run()
            self.runs.append((work, run))

    def ready(self, work: Work, choose: Callable[[Multiply, list[tuple[Product, Run]]], int]) -> Run:
        """Return the function that enqueues one launch."""
        if isinstance(work, Launch):
            return self._kernel(work)
        left, right, out = (self.addresses[name] for name in (work.a, work.b, work.d))
        ways = self.products.ways(work, self.workspace, self._handle)
        runs = [(way, way.into(left, right, out)) for way in ways]
        rank = self.products.ranks.get(work.sizes)
        if rank is None:
            rank = self.products.ranks[work.sizes] = choose(work, runs)
        way, run = runs[min(rank, len(runs) - 1)]
        self.chosen[work.layer] = way
        return run

    def once(self) -> None:
        """Enqueue the one-time work on the weights."""
        for work in self.plan.once:
            self._kernel(work)()

    def __call__(self) -> None:
        """Enqueue one pass."""
        for _, run in self.runs:
            run()

    @property
    def _handle(self) -> int:
        return int(self.stream.handle) if self.stream else self.card.stream

    def _kernel(self, work: Launch) -> Run:
        given = [
            ctypes.c_uint64(self.addresses[one]) if isinstance(one, str) else number(one) for one in work.arguments
        ]
        kernel = self.card.kernel(FILE, work.kernel)
        return self.card.starter(kernel, (work.grid, work.block, work.shared), given, self.stream)


@dataclass(slots=True)
class Gate:
    """Blocks the card's stream until the host has enqueued everything, so that the host's part is not timed."""

    card: Card
    flag: Memory
    held: bool = True
    _shut: Run = field(init=False)

    def __post_init__(self) -> None:
        """Load the waiting kernel."""
        self._shut = self.card.launcher("engine", "gate", 1, 1, [self.flag, ctypes.c_uint64(PATIENCE_NS)])

    def through(self, enqueue: Run, last: Event) -> None:
        """Enqueue behind the closed gate, record the last event, open it, and wait until the GPU has passed."""
        flag = (ctypes.c_uint32 * 2).from_address(self.flag.address)
        flag[0], flag[1] = 0, 0
        self._shut()
        enqueue()
        self.card.record(last)
        flag[0] = 1
        self.card.wait(last, WAIT)
        self.held = self.held and not flag[1]


def workspace(card: Card) -> int:
    """Return how many bytes of workspace cuBLASLt may use."""
    wanted = WORKSPACE.get(card.capability[0], SMALL_WORKSPACE)
    return max(1 << 16, min(wanted, card.free()[0] // LEAST_PART))


@dataclass(slots=True, kw_only=True)
class Stage:
    """What the story leaves behind for the figures: the model on the card, its numbers on the host, and the graph.

    Step 1 makes ``values``, ``raw`` and ``pinned``, step 2 ``weights``, step 3 the rest, step 7 ``answer``.
    """

    desk: Desk
    card: Card
    model: Model
    arena: Arena
    telling: Telling
    stack: ExitStack
    values: dict[str, Array] = field(init=False)
    raw: NDArray[np.uint8] = field(init=False)
    pinned: Memory = field(init=False)
    weights: int = field(init=False)
    gate: Gate = field(init=False)
    products: Products = field(init=False)
    runner: Runner = field(init=False)
    graph: Calls = field(init=False)
    answer: Memory = field(init=False)
    truth: Array | None = None
    tries: int = 0
