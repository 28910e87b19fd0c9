"""Results as people and programs read them: one renderer per format, each imported when needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

RENDERERS = {
    "json": "model.writing:render",
    "text": "report.text:render",
    "bench": "report.bench_text:render",
    "check": "report.check_text:render",
    "diff": "report.check_text:render_diff",
    "selftest": "report.check_text:render_selftest",
    "explanation": "report.knowledge_text:render_explanation",
    "matrix": "report.knowledge_text:render_matrix",
    "matrix-csv": "report.knowledge_text:render_csv",
    "map": "report.stack_text:render_map",
    "map-html": "report.stack_html:render",
    "trace": "report.trace_text:render",
    "trace-html": "report.trace_html:render",
    "fleet": "report.fleet_text:render",
    "fleet-html": "report.report_html:render_fleet",
    "fleet-nodelist": "report.fleet_text:nodelist",
    "fleet-prometheus": "report.fleet_text:prometheus",
    "fleet-junit": "report.fleet_text:junit",
    "fleet-diff": "report.fleet_text:render_diff",
    "fleet-plan": "report.fleet_text:render_plan",
    "fleet-pairs": "report.fleet_text:render_pairs",
    "fleet-since": "report.fleet_text:render_since",
    "trace-perfetto": "report.trace_charts:perfetto",
    "html": "report.report_html:render",
    "junit": "report.report_junit:render",
    "markdown": "report.report_markdown:render",
    "github": "report.for_github:render_github",
    "sarif": "report.for_github:render_sarif",
    "nagios": "report.monitoring:render_nagios",
    "prometheus": "report.monitoring:render_prometheus",
}


def renderer(form: str) -> Callable[..., str]:
    """Return the function that renders a result in this format; importing it takes time, so call it early."""
    module, _, name = RENDERERS[form].partition(":")
    render: Callable[..., str] = getattr(import_module(f"gpustack.{module}"), name)
    return render
