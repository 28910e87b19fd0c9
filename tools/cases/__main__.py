"""Work with recorded cases: ``python -m tools.cases COMMAND``.

A case as a folder consists of the inputs (``*.txt``) and ``expected.toml``. New public threads are given as JSON (see
``tools/cases/threads.py``); the threads of half of all repositories are held out: nobody reads them while building.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import messages
from tools import cases
from tools.cases import ranking, threads


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.cases", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="write all cases, or some, each as a folder below DIR")
    write.add_argument("folder", metavar="DIR", type=Path)
    write.add_argument("ids", metavar="ID", nargs="*")
    write.add_argument("--held-out", action="store_true", help="those that are held out")
    add = commands.add_parser("add", help="take in the case that FOLDER holds, in place of one of the same id")
    add.add_argument("folder", metavar="FOLDER", type=Path)
    take = commands.add_parser("take", help="take in new public threads from a file or a folder of JSON")
    take.add_argument("path", metavar="PATH", type=Path)
    take.add_argument("--to-build-with", action="store_true", help="hold none out")
    measure = commands.add_parser("measure", help="print how many held-out cases are judged rightly")
    measure.add_argument("--recorded", action="store_true", help="of the cases to build with instead")
    index = commands.add_parser("index", help="make compat-matrix/candidates.toml again, and say how well it ranks")
    index.add_argument("--only-validate", action="store_true", help="write nothing")
    commands.add_parser("messages", help="print how many texts and how many expressions recognise messages")
    given = parser.parse_args()
    done = {"write": _write, "add": _add, "take": _take, "measure": _measure, "index": _index, "messages": _messages}
    print(done[given.command](given))


def _write(given: argparse.Namespace) -> str:
    wanted = [*map(cases.named, given.ids)] or cases.every(held_out=given.held_out)
    return f"{len([cases.write(case, given.folder) for case in wanted])} cases in {given.folder}"


def _add(given: argparse.Namespace) -> str:
    case = cases.add(given.folder)
    return f"{case.id}: {cases.FOLDER}/{case.root_cause}.toml"


def _take(given: argparse.Namespace) -> str:
    taken = threads.take(given.path, split=not given.to_build_with)
    return ", ".join(f"{number} {what}" for what, number in sorted(taken.items())) or "no threads"


def _measure(given: argparse.Namespace) -> str:
    held_out = not given.recorded
    return f"{'held out' if held_out else 'recorded'}: {threads.measure(cases.every(held_out=held_out), Matrix())}"


def _index(given: argparse.Namespace) -> str:
    matrix = Matrix()
    documents = [ranking.document(case, matrix) for case in cases.every()]
    vocabulary = [*ranking.vocabulary(matrix), *ranking.wordings(matrix)]
    if not given.only_validate:
        ranking.write(ranking.built((*documents, *vocabulary)))
    ranked, frequent = ranking.validate(documents, vocabulary)
    return f"{ranked}\nalways the most frequent causes: {frequent}"


def _messages(_: argparse.Namespace) -> str:
    matrix = Matrix()
    rows = messages.rows(matrix)
    texts, expressions = sum(len(row.text) for row in rows), sum(bool(row.match) for row in rows)
    said = (*messages.things(matrix), *messages.states(matrix), *messages.voids(matrix))
    return (
        f"{len(rows)} rows: {texts} texts in {len(rows) - expressions} rows, {expressions} expressions; "
        f"and {len(said)} of the words that people use (prose.toml)"
    )


if __name__ == "__main__":
    main()
