"""Which hardware: UUIDs, serial numbers, addresses of network cards and numbers of disks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpustack.redaction.form import Form, Found, shape

DASHED = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
COLUMN = re.compile(
    r"(?i)[\s\"']*(?:(?:gpu|board|module|chassis|system|device)?[_ ]?(?:serial(?:[_ ](?:number|no))?|s/?n)"
    r"|asset[_ ]tag)[\s\"'.]*"
)
SEPARATORS, LEAST_CELLS = ",;\t|", 2


def _numbered(match: re.Match[str], _: Sequence[str]) -> bool:
    """Return whether a serial number has a digit: no other word is one."""
    return any(letter.isdecimal() for letter in match["serial"])


def _columns(text: str, _: Sequence[str]) -> Iterator[Found]:
    """Yield the serial numbers of a table whose head names them, line by line as long as it has as many cells."""
    at, separator, columns, cells = 0, "", frozenset[int](), 0
    for row in text.splitlines(keepends=True):
        held = row.split(separator) if separator else []
        if not separator or len(held) != cells:
            separator = next((one for one in SEPARATORS if one in row), "")
            held = row.split(separator) if separator else []
            columns = frozenset(number for number, cell in enumerate(held) if COLUMN.fullmatch(cell))
            separator, cells = (separator, len(held)) if columns and len(held) >= LEAST_CELLS else ("", 0)
        else:
            start = at
            for number, cell in enumerate(held):
                said = cell.strip(" \t\r\n\"'")
                if number in columns and any(letter.isdecimal() for letter in said):
                    first = start + cell.index(said)
                    yield Found(first, first + len(said), "serial", said)
                start += len(cell) + 1
        at += len(row)


MACHINES = (
    Form(
        name="UUID of a GPU",
        context="GPU- and its number, whole, without dashes, or the beginning that CUDA_VISIBLE_DEVICES takes",
        find=shape(
            rf"(?<![A-Za-z0-9])(?P<GPU>GPU-(?i:{DASHED}|[0-9a-f]{{32}}"
            rf"|(?=[0-9a-f-]*[a-f])[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{0,3}}(?![\w-])))"
        ),
        hints=("gpu-",),
    ),
    Form(
        name="UUID of a MIG device",
        context="MIG- and its number",
        find=shape(rf"(?<![A-Za-z0-9])(?P<MIG>MIG-(?i:{DASHED}|[0-9a-f]{{32}}))"),
        hints=("mig-",),
    ),
    Form(
        name="UUID",
        context="anywhere with dashes; without them after a word such as uuid, machine-id or guid, or of version 4",
        find=shape(
            rf"(?i)(?P<uuid>{DASHED})|(?:uuid|guid|machine[-_ ]?id|boot[-_ ]?id"
            rf"|luks)\W{{0,4}}(?P<uuid2>[0-9a-f]{{32}})(?![\w-])"
            r"|(?<![\w-])(?P<uuid3>[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15})(?![\w-])"
        ),
        hints=("-", "id", "luks", "4"),
    ),
    Form(
        name="serial number",
        context="after Serial, Serial Number, S/N, SN, Service Tag, Asset Tag, ID_SERIAL, GPU PDI",
        find=shape(
            r"(?i)(?<![A-Za-z0-9])(?:serial(?:[ _-]?(?:number|num|no))?|s/n|\[?sn\]?|service[ _-]tag"
            r"|asset[ _-]tag|id_serial(?:_short)?|gpu pdi|chassis[ _-]?id)"
            r"(?:\.|\b|(?<=\]))\\?[\"']?[ \t]{0,40}[:=][ \t]{0,20}\\?[\"']?(?P<serial>[A-Za-z0-9][\w-]{4,63})",
            _numbered,
        ),
        hints=("serial", "s/n", "sn", "tag", "pdi", "chassis"),
        learnt=True,
    ),
    Form(
        name="column of serial numbers",
        context="below a cell of that name, in CSV and other tables of cells",
        find=_columns,
        hints=("serial", "sn", "s/n", "asset"),
        learnt=True,
    ),
    Form(
        name="number of a disk or target",
        context="WWN, EUI, NAA, by-id names of disks, iSCSI names",
        find=shape(
            r"(?i)(?P<serial>\b(?:wwn-|eui\.|naa\.)(?:0x)?[0-9a-f]{16,32}|\biqn\.\d{4}-\d\d\.[\w.:-]{4,200})"
            r"|\bwwn[\"']?(?: device id)?[:=]?[ ]{0,4}"
            r"(?P<serial2>(?:0x)?[0-9a-f]{1,16}(?:[ :][0-9a-f]{2,9}){0,7})(?![\w-])"
            r"|/by-id/(?:nvme|ata|scsi|usb)-[A-Za-z0-9_]{0,60}_(?P<serial3>[A-Za-z0-9]{8,30})"
        ),
        hints=("wwn", "eui.", "naa.", "iqn.", "/by-id/"),
    ),
    Form(
        name="GUID of InfiniBand",
        context="four groups of four, or 0x and 16 digits after the word GUID",
        find=shape(
            r"(?i)(?<![\w:.-])(?P<mac>(?=[0-9:]{0,18}[a-f])[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![\w:])"
            r"|guid\W{0,4}(?P<mac2>(?:0x)?[0-9a-f]{16}|[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![\w:])"
        ),
        hints=("guid", ":"),
    ),
    Form(
        name="address of a network card",
        context=(
            "six groups with colons or dashes (up to twenty), Cisco's three; without separators after "
            "mac, hwaddr, ether and in enx…"
        ),
        find=shape(
            r"(?i)(?<![\w:.-])(?P<mac>[0-9a-f]{2}([:-])(?:[0-9a-f]{2}\2){4,18}[0-9a-f]{2})(?![\w:-])"
            r"|(?<![\w.-])(?P<mac2>[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})(?![\w.])"
            r"|\b(?:mac|hwaddr|ether|hw_addr|mac[-_ ]?addr(?:ess)?)[\"']?\W{1,4}(?P<mac3>[0-9a-f]{12})(?!\w)"
            r"|\benx(?P<mac4>[0-9a-f]{12})(?!\w)"
        ),
        hints=(":", "-", ".", "mac", "hwaddr", "ether", "enx", "hw_addr"),
    ),
)
