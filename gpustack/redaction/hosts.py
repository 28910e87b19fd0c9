"""Which host: its names, where the words or signs around say that they are one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.redaction.form import Form, shape

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

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
