"""Pages of HTML: one file each that loads nothing from elsewhere, every word of it escaped."""

from __future__ import annotations

from html import escape

from gpustack.report.page import clean

STYLE = """
:root{color-scheme:light dark;--ink:#1d2330;--soft:#5d6678;--page:#f6f7f9;--card:#fff;--line:#d6dae2;--good:#177245;
--bad:#b3261e;--warn:#8a5a00;--ask:#6b3fa0;--lit:#e7f4ec}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#a0a9bb;--page:#12151b;--card:#1b2029;--line:#333b49;
--good:#6fd39c;--bad:#ff8a80;--warn:#f0be5c;--ask:#c9a7f5;--lit:#1c3328}}
*{box-sizing:border-box}
body{margin:0;padding:1rem;background:var(--page);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
main{max-width:64rem;margin:0 auto}
h1{font-size:1.35rem;margin:.2rem 0}
h2{font-size:1.1rem;margin:1.6rem 0 .5rem}
p{margin:.3rem 0}
a{color:inherit}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}
pre{background:var(--page);border:1px solid var(--line);border-radius:.3rem;padding:.5rem;margin:.4rem 0;
overflow-x:auto}
.soft{color:var(--soft)}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}.ask{color:var(--ask)}
.card{background:var(--card);border:1px solid var(--line);border-radius:.4rem;padding:.6rem .8rem;margin:.5rem 0;
overflow-wrap:anywhere}
"""


def safe(text: object) -> str:
    """Give the text as it may stand in HTML, between tags or in a quoted attribute: escaped, and harmless to read."""
    return escape(clean(str(text)), quote=True)


def tag(name: str, inside: str, class_: str = "") -> str:
    """Give an element around HTML that is made already."""
    kind = f' class="{class_}"' if class_ else ""
    return f"<{name}{kind}>{inside}</{name}>"


def document(title: str, inside: str, style: str = "") -> str:
    """Give a whole page around HTML that is made already."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">'
        f"<title>{safe(title)}</title><style>{STYLE}{style}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main>\n{inside}\n</main></body></html>\n'
