"""ONNX as installed: its version, and the newest opset and format that it writes. Nothing is imported.

``onnx/helper.py`` has a table of all releases, whose last row is this release. It is read as text: parsing the file
would take longer than everything else.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Answer, Facts, Host

ROW = re.compile(r'^[ \t]*\("(\d+(?:\.\d+)+)",\s*(\d{1,3}),\s*(\d{1,3}),\s*(\d{1,3})(?:,\s*\d{1,3})?\),?', re.MULTILINE)
TEXT = 1 << 17


def probe(host: "Host") -> "Answer":
    """Return each copy; for the one that an import finds, also the opsets."""
    installed = host.shared("installed.py")
    place = next(iter(installed["places"](host, "onnx")), None)
    found = [
        {
            "key": copy["name"] + (" in " + copy["path"] if number else ""),
            "version": copy["version"],
            "path": copy["path"],
        }
        for number, copy in enumerate(copy for copy in installed["find"](host) if copy["name"] == "onnx")
    ]
    if not found:
        return None
    if place is None:
        error = "the distribution is installed, but no folder on the path holds the package onnx"
        return [dict(copy, status="failed", error=error) for copy in found]
    found[0].update(path=place, **opsets(host.read(place + "/helper.py", TEXT) or ""))
    return found


def opsets(text: str) -> "Facts":
    """Return opset, opset_ml and ir of the newest release in the table; None for each if there is no table."""
    rows = [tuple(int(number) for number in row[1:]) for row in ROW.findall(text.partition("VERSION_TABLE")[2])]
    ir, opset, machine = max(rows, key=lambda row: row[1]) if rows else (None, None, None)
    return {"opset": opset, "opset_ml": machine, "ir": ir}
