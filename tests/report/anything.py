"""Reports drawn at random, with texts that try to break out of every format: what hypothesis gives to renderers."""

from __future__ import annotations

from hypothesis import strategies as st

from gpustack.model.bench import BenchReport, Device, Mark, Power, Result, Span, Telemetry
from gpustack.model.facts import Component, Host, Layer, Status, Unseen
from gpustack.model.policy import CheckReport, HealthClass, Held
from gpustack.model.report import (
    Because,
    Confidence,
    Contract,
    Finding,
    Fix,
    Health,
    Kept,
    Row,
    Severity,
    Verdict,
)
from tests.report import reports

TEXT = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", "::error::x", "%0A", "a|b", "`", "```", "]]>", "<b>", "'=\"", "\ud800", "\x00\x1b", "1.", "\\"]
    ),
)
NAMED = TEXT.map("x".__add__)  # a finding always has a name
NUMBER = st.one_of(st.floats(), st.none())
BECAUSE = st.builds(Because, component=TEXT, fact=TEXT, value=TEXT, source=TEXT)
FIX = st.builds(Fix, text=TEXT, commands=st.tuples(TEXT, TEXT), needs_root=st.booleans(), verify=st.none() | TEXT)
ROW = st.builds(Row, table=TEXT, text=TEXT, source=TEXT, checked=TEXT)
FINDING = st.builds(
    Finding,
    id=NAMED,
    severity=st.sampled_from(Severity),
    layer=st.sampled_from(Layer),
    component=TEXT,
    title=NAMED,
    detail=TEXT,
    instance=st.none() | TEXT,
    because=st.lists(BECAUSE, max_size=2).map(tuple),
    row=st.none() | ROW,
    fix=st.none() | FIX,
    caused_by=st.none() | TEXT,
    confidence=st.sampled_from(Confidence),
)
CONTRACT = st.builds(
    Contract, from_=TEXT, to=TEXT, kind=TEXT, needs=TEXT, found=TEXT, status=st.sampled_from(Kept), environment=TEXT
)
COMPONENT = st.builds(
    Component,
    id=TEXT,
    layer=st.sampled_from(Layer),
    vendor=TEXT,
    status=st.sampled_from(Status),
    version=TEXT,
    path=TEXT,
)
SPAN = st.builds(Span, low=st.floats(), median=st.floats(), high=st.floats())
TELEMETRY = st.builds(Telemetry, power=st.builds(Power, watts=SPAN, limit=NUMBER))
RESULT = st.builds(
    Result,
    id=NAMED,
    device=st.none() | st.integers(0, 1),
    unit=st.sampled_from(["GB/s", "us", "TFLOP/s", ""]) | TEXT,
    verdict=st.sampled_from(Mark),
    value=NUMBER,
    ceiling=NUMBER,
    ratio=NUMBER,
    samples=st.lists(st.floats(), max_size=3).map(tuple),
    why=st.lists(TEXT, max_size=2).map(tuple),
    telemetry=st.none() | TELEMETRY,
    seconds=st.floats(),
)
BENCH = st.builds(
    BenchReport,
    tool=st.just(reports.TOOL),
    devices=st.lists(
        st.builds(Device, index=st.integers(0, 1), uuid=TEXT, name=TEXT, compute_capability=TEXT), max_size=2
    ).map(tuple),
    results=st.lists(RESULT, max_size=3).map(tuple),
    findings=st.lists(FINDING, max_size=2).map(tuple),
    taken=TEXT,
    seconds=st.floats(),
)
HELD = st.builds(
    Held,
    rule=TEXT,
    wanted=TEXT,
    found=TEXT,
    ok=st.sampled_from([True, False, None]),
    whose=st.sampled_from(HealthClass),
    place=st.none() | TEXT,
)
CHECK = st.builds(
    CheckReport,
    tool=st.just(reports.TOOL),
    host=st.builds(Host, hostname=TEXT, os=TEXT),
    components=st.lists(COMPONENT, max_size=2).map(tuple),
    contracts=st.lists(CONTRACT, max_size=2).map(tuple),
    findings=st.lists(FINDING, max_size=3).map(tuple),
    not_seen=st.lists(st.builds(Unseen, what=TEXT, why=TEXT), max_size=2).map(tuple),
    environments=st.just(()),
    verdict=st.builds(
        Verdict,
        status=st.sampled_from(Health),
        root_keys=st.lists(TEXT, max_size=1).map(tuple),
        works=st.dictionaries(TEXT, st.sampled_from([True, False, None]), max_size=2),
    ),
    taken=TEXT,
    seconds=st.floats(),
    class_=st.sampled_from(HealthClass),
    why=TEXT,
    policy=st.lists(HELD, max_size=2).map(tuple),
    bench=st.none() | BENCH,
)
