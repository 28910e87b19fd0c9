"""Write recorded cases as folders, or take one in: ``python -m tools.cases write DIR [ID...]``, ``… add FOLDER``.

A folder holds the inputs as ``*.txt`` and ``expected.toml``. What is taken in replaces the case of the same id.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tools import cases


def main() -> None:
    """Do what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tools.cases", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="write all cases, or some, each as a folder below DIR")
    write.add_argument("folder", metavar="DIR", type=Path)
    write.add_argument("ids", metavar="ID", nargs="*")
    add = commands.add_parser("add", help="take in the case that FOLDER holds")
    add.add_argument("folder", metavar="FOLDER", type=Path)
    given = parser.parse_args()
    if given.command == "add":
        case = cases.add(given.folder)
        print(f"{case.id}: {cases.FOLDER}/{case.root_cause}.toml")
        return
    written = [cases.write(case, given.folder) for case in [*map(cases.named, given.ids)] or cases.every()]
    print(f"{len(written)} cases in {given.folder}")


if __name__ == "__main__":
    main()
