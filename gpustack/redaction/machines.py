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
        examples=(
            "uuid «GPU-451607bd-f6e8-69f7-4b69-d39bbe37fccb»",
            "«GPU-451607bdf6e869f74b69d39bbe37fccb»",
            "CUDA_VISIBLE_DEVICES=«GPU-451607bd»,«GPU-0a1b2c3d-1234»",
        ),
        stays=("GPU-1", "GPU-bound", "GPU-accelerated"),
    ),
    Form(
        name="UUID of a MIG device",
        context="MIG- and its number",
        find=shape(rf"(?<![A-Za-z0-9])(?P<MIG>MIG-(?i:{DASHED}|[0-9a-f]{{32}}))"),
        hints=("mig-",),
        examples=("«MIG-451607bd-f6e8-69f7-4b69-d39bbe37fccb»",),
        stays=("MIG-1", "MIG-enabled", "MIG 1g.10gb"),
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
        examples=(
            "boot «451607bd-f6e8-69f7-4b69-d39bbe37fccb»",
            "root=UUID=«451607bd-f6e8-69f7-4b69-d39bbe37fccb» ro",
            "uuid: «451607bdf6e869f74b69d39bbe37fccb»",
            "machine-id «0123456789abcdef0123456789abcdef»",
            "rd.luks.uuid=luks-«451607bd-f6e8-69f7-4b69-d39bbe37fccb»",
            "id «451607bdf6e849f78b69d39bbe37fccb»",
        ),
        stays=(
            "md5 d41d8cd98f00b204e9800998ecf8427e",
            "torch/csrc 70d99e998b4955e0049d13a98d77ae1b14db1f45",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "commit 70d99e99",
        ),
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
        examples=(
            "Serial Number                         : «1654024030449»",
            "S/N: «1654024030449»",
            "SN: «MT2211X00001»",
            "serial=«0325118112345»",
            "Board Serial Number: «1321820000001»",
            "Service Tag: «4XK9P02»",
            "Asset Tag: «INV-00123»",
            "board_serial: «.1»".replace(".1", "AB12345"),
            "ID_SERIAL_SHORT=«S64DNF0R123456»",
            "Serial No.: «1654024030449»",
            "GPU PDI: «0x90525124159bd852»",
            '"serial": "«1654024030449»"',
            "Chassis Serial Number: «CZ1234ABCD»",
            "[SN] Serial number: «1654024030449»",
        ),
        stays=(
            "serial: N/A",
            "Serial: enabled",
            "ttyS0 serial console",
            "Board Part Number: 900-21010-0000-000",
            "Part Number : 692-2G506",
        ),
    ),
    Form(
        name="column of serial numbers",
        context="below a cell of that name, in CSV and other tables of cells",
        find=_columns,
        hints=("serial", "sn", "s/n", "asset"),
        learnt=True,
        examples=(
            (
                "name, serial, pci.bus_id\nNVIDIA A100, «1654024030449», 00000000:01:00.0\nNVIDIA A100, "
                "«1654024030450», 00000000:02:00.0"
            ),
            "index;gpu_serial\n0;«1654024030449»",
            "a,s/n\nx,«CZ1234»",
            '"uuid","serial"\n"GPU-1","«16540240»"',
        ),
        stays=("name, driver_version\nNVIDIA A100, 580.95.05", "name, serial\nA100, [N/A]"),
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
        examples=(
            "/dev/disk/by-id/«wwn-0x5002538e40a1b2c3»",
            "«eui.0025385b71b00e2a»",
            "LU WWN Device Id: «5 002538 e40a1b2c3»",
            "«iqn.2004-10.com.ubuntu:01:abcdef»",
            "/dev/disk/by-id/nvme-Samsung_SSD_980_«S64DNF0R123456»",
        ),
        stays=("wwn unknown", "/dev/nvme0n1"),
    ),
    Form(
        name="GUID of InfiniBand",
        context="four groups of four, or 0x and 16 digits after the word GUID",
        find=shape(
            r"(?i)(?<![\w:.-])(?P<mac>(?=[0-9:]{0,18}[a-f])[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![\w:])"
            r"|guid\W{0,4}(?P<mac2>(?:0x)?[0-9a-f]{16}|[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![\w:])"
        ),
        hints=("guid", ":"),
        examples=(
            "node_guid: «b8ce:f603:00a1:b2c3»",
            "Port GUID: «0xb8cef60300a1b2c3»",
            "sys_image_guid «0000:1111:2222:3333»",
            "mlx5_0 «b8ce:f603:00a1:b2c3» up",
        ),
        stays=("2026:1121:1010:3000", "0000:00:06.0", "guided by x"),
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
        examples=(
            "link/ether «52:54:00:ab:cd:ef» brd",
            "«52-54-00-AB-CD-EF»",
            "«aabb.ccdd.eeff» dynamic",
            "mac aabb.ccdd.eeff".replace("aabb.ccdd.eeff", "«aabb.ccdd.eeff»"),
            "mac=«aabbccddeeff»",
            "HWaddr: «AABBCCDDEEFF»",
            "enx«aabbccddeeff»: up",
            "BOOTIF=«01-aa-bb-cc-dd-ee-ff»",
            "infiniband «80:00:00:68:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:a1:b2:c3»",
            "Device Serial Number «00-11-22-ff-fe-33-44-55»",
        ),
        stays=(
            "96.00.A5.00.1A",
            "96.00.89.00.01",
            "10:18:26",
            "commit 0123456789ab",
            "0000:00:06.0",
            "1234.5678",
            "PCI:0000:01:00",
        ),
    ),
)
