"""Which machine: serial numbers, addresses of its cards, and its names where the words or signs around tell them."""

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


HOST = r"[A-Za-z][\w.-]{0,63}"
_NO_HOST = """the a an is at in on of to and with for name names port your this that all any each one not no none null
    true false localhost compute memory cpu gpu driver device kernel process processes side code function
    pointer compiler only container bridge header headers file files list type"""
NO_HOST = frozenset(_NO_HOST.split())


def _names(match: re.Match[str], _: Sequence[str]) -> bool:
    """Return whether the word behind "host" or "node" names one."""
    said = next(filter(None, (match.groupdict().get(group) for group in ("host", "host2", "host3"))), "")
    return said.lower().rstrip(".") not in NO_HOST


HOSTS = (
    Form(
        name="host of a log",
        context="in the lines of syslog, uname, NCCL, Open MPI, Slurm and hostnamectl",
        find=shape(
            r"(?m)^(?:[A-Z][a-z]{2}\s{1,2}\d{1,2}\s[\d:]{8}"
            r"|\d{4}-\d\d-\d\dT[^\s]{1,40})\s(?P<host>[\w.-]{1,64})\s(?=[\w./-]{1,60}(?:\[\d{1,9}\])?:)"
            r"|\bLinux\s(?!(?:Server|Workstation|Client|release|kernel|version|Mint|Enterprise)\b)(?P<host2>[\w.-]{1,64})\s\d+\.\d"
            r"|^(?:\[?rank\s?\d{1,6}\]?:\s)?(?P<host3>[\w.-]{1,64}):\d{1,7}:\d{1,7}\s\[\d{1,3}\]\s"
            rf"|^\[(?P<host4>{HOST}):\d{{2,7}}\](?=[ \t])|\b(?:srun|slurmstepd|salloc): (?:error: "
            rf"|Nodes )(?:\*\*\* (?:JOB|STEP) [\d.]{{1,20}} ON )?(?P<host5>{HOST}(?:\[[\d,-]{{1,200}}\])?)(?=:"
            rf"| are| CANCELLED)"
            rf"|[Ss]tatic hostname:[ ](?P<host6>{HOST})"
        ),
        hints=(":", "linux"),
        learnt=True,
    ),
    Form(
        name="host in a variable or flag",
        context="HOSTNAME=, NODELIST=, MASTER_ADDR=, COMM_ID=, --host, --master-addr, --rdzv-endpoint, --nodelist",
        find=shape(
            r"(?:HOSTNAME|NODENAME|NODELIST|MASTER_ADDR|SUBMIT_HOST|O_HOST|HOSTS?|HOSTID|COMM_ID|HEAD_NODE"
            r"|SERVERNAME|TOPOLOGY_ADDR)[\"']?[=:][ ]?[\"']?"
            rf"(?P<host>{HOST}(?:\[[\d,-]{{1,200}}\][\w.-]{{0,64}})?)"
            rf"|--(?:host(?:name)?|node(?:list|name)?|master[-_]addr|rdzv[-_]endpoint|dist-init-addr|head-node"
            rf"|address|server)[= ][\"']?(?P<host2>{HOST}(?:\[[\d,-]{{1,200}}\])?)"
            rf"|\b(?:hostname|systemd\.hostname|nodename|node_name"
            rf"|fqdn)[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}}[\"']?(?P<host3>{HOST})",
            _names,
        ),
        hints=("host", "node", "addr", "comm_id", "servername", "--"),
        learnt=True,
    ),
    Form(
        name="host of the kernel's command line and of mounts",
        context="the fifth part of ip=, the server before :/ or after // of a mount, an LNet",
        find=shape(
            rf"\bip=(?:[^:\s]{{0,64}}:){{4}}(?P<host>{HOST})(?=:|\s|$)"
            rf"|(?m:^)(?P<host2>{HOST}):/[^\s]{{0,200}}(?=\s+(?:on\s+)?/)"
            rf"|(?m:^)//(?P<host3>{HOST})/[^\s]{{1,200}}\s+(?:on\s+)?/"
            rf"|\bnfsroot=(?P<host4>{HOST}):"
        ),
        hints=("ip=", ":/", "//", "nfsroot"),
        learnt=True,
    ),
    Form(
        name="host in words",
        context="on node …, host … is, Connected to …, ping …",
        find=shape(
            r"\b(?i:(?:on|from|to|at|of) (?:node|host|machine|server)|could not resolve host(?:name)?:?"
            r"|unknown host:?|connect(?:ed|ing)? to host|ping|nslookup|dig|ssh: connect to host)"
            r"[ ][\"']?(?P<host>[A-Za-z](?=[A-Za-z.-]{0,40}\d|[\w-]{1,40}\.[\w.-]{1,60}[A-Za-z])[\w.-]{0,63})",
            _names,
        ),
        hints=("node", "host", "machine", "server", "ping", "nslookup", "dig"),
        learnt=True,
    ),
    Form(
        name="private domain",
        context="names that end as only an organisation's own do, and names of machines in clouds",
        find=shape(
            r"(?i)(?<![\w./-])(?P<host>(?:[a-z0-9](?:[a-z0-9-]{0,62})\.){1,8}(?:local|lan|internal|corp|intra"
            r"|intranet|localdomain|private|edu|gov|mil"
            r"|compute(?:-\d)?\.amazonaws\.com|cloudapp\.azure\.com))(?![\w-]|\.[a-z])"
            r"|(?P<host2>\bip-(?:\d{1,3}-){3}\d{1,3}(?:\.[a-z][\w-]{0,62}){0,6})"
        ),
        hints=(".local", ".lan", ".in", ".corp", ".private", ".edu", ".gov", ".mil", ".amazonaws", ".azure", "ip-"),
    ),
)
