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
        examples=(
            "Nov 21 10:02:33 «rack9» kernel: NVRM: Xid",
            "2026-11-21T10:02:33+00:00 «rack9» kernel: x",
            "Linux «rack7-gpu3» 6.8.0-50-generic x86_64",
            "rank0: «node0042»:1234:1234 [0] NCCL INFO",
            "[«node01»:12345] mca: base",
            "srun: error: «node01»: task 0: Exited",
            "slurmstepd: error: *** JOB 77 ON «node01» CANCELLED",
            "salloc: Nodes «node[01-02]» are ready",
            "Static hostname: «rack9»",
        ),
        stays=(
            "Linux 6.8.0-50-generic x86_64",
            "Red Hat Enterprise Linux Server 7.6 (Maipo)",
            "Rocky Linux release 9.4",
            "[rank0:1]: x",
            "2026-11-21T10:02:00+00:00",
        ),
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
        examples=(
            "SLURMD_NODENAME=«node42»",
            "MASTER_ADDR=«node17.cluster.corp»",
            "HOSTNAME=«rack9»",
            "SLURM_JOB_NODELIST=«node[01-04]»",
            "SLURM_NODELIST=«gpu[1,3-5]»",
            "PBS_O_HOST=«login1»",
            "NCCL_COMM_ID=«node7»:1234",
            "--master-addr «node17» --nnodes 2",
            "--rdzv_endpoint=«node17»:29400",
            "--nodelist=«node[01-04]»",
            "systemd.hostname=«node7» quiet",
            "hostname: «rack9»",
            '"hostname": "«rack9»"',
            "SLURM_SUBMIT_HOST=«login02»",
            "ray start --address='«head7»:6379'",
        ),
        stays=("NCCL_HOSTID=", "--host 0.0.0.0", "--hostname", "MASTER_PORT=29500", "HOST=localhost"),
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
        examples=(
            "ip=«10.0.0.7»:::255.0.0.0:«node7»:eth0:off".replace("«10.0.0.7»", ""),
            "ip=::::«node7»:eth0:none quiet",
            "«filer7»:/export/x /mnt/x nfs4 rw 0 0",
            "//«filer7»/share /mnt/x cifs rw 0 0",
            "«filer7»:/vol on /mnt/x type nfs",
            "nfsroot=«boot7»:/srv",
        ),
        stays=("ip=dhcp", "overlay:/x", "tmpfs /dev/shm tmpfs rw"),
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
        examples=(
            "failed on node «node07»",
            "Starting worker on host «rack9.corp.example»",
            "ping «node7»",
            "ssh: connect to host «node7» port 22",
        ),
        stays=("on host memory", "on node 0", "from host to device", "of machine learning"),
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
        examples=(
            "«ip-10-1-2-3.ec2.internal»",
            "see «gpu7.cs.uni.edu» now",
            "«node7.cluster.local»",
            "«ec2-3-4-5-6.compute-1.amazonaws.com»",
            "at «rack9.corp»:8000",
            "«ip-10-1-2-3»",
        ),
        stays=(
            "/usr/local",
            "torch.cuda.is_available",
            "libcudart.so.12",
            "download.pytorch.org",
            "github.com",
            "config.local.json",
            "ip-addr",
            "torch._C._internal",
        ),
    ),
)
