"""Who and where: e-mail addresses, accounts, prompts, users' folders, and hosts that nearby words identify."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpustack.redaction.form import form

# Common names of accounts and machines: they identify nobody, and are also words of the stack.
_SHARED = """root ubuntu debian fedora centos rocky alpine user users admin test guest nvidia cuda gpu gpus cpu vm
localhost docker container runner jovyan vagrant ec2-user azureuser conda mamba app dev work worker node server host
linux python torch pytorch jax default build builder jenkins ray spark dask vllm triton ollama linuxbrew shared public
home data opt usr lib bin src model models kernel systemd mac email serial secret uuid"""
SHARED = frozenset(_SHARED.split())
# Shared folders where a user's would be.
_COMMON = """tmp temp proj cache caches datasets dataset project projects env envs venv .venv venvs containers images
    image software apps local system libs log logs job jobs slurm results checkpoints ckpt group groups common
    git workspace repo repos code install modules spack easybuild miniconda miniconda3 anaconda3 miniforge3
    huggingface hub weights output outputs input runs scratch etc var share all www html _work a b c x
    site-packages lost+found"""
COMMON = SHARED | frozenset(_COMMON.split())
NO_ACCOUNT = frozenset(
    ["root", "nobody", "id", "name", "is", "none", "null", "the", "for", "and", "to", "mode", "space"]
)
UNITS = re.compile(r"\.(?:service|socket|target|timer|mount|slice|scope|device|path|so|py|json|git|whl)$")
NAME = r"[^/\\\s:;,\"'<>|&()\[\]{}$*?=#`]+(?:[ ][A-Z][^/\\\s:]{0,40}(?=[/\\])){0,3}"
ACCOUNT = r"[A-Za-z_][\w.-]{0,63}"
WORK = r"(?:l|local_?|p|f|b|t)?scratch\d{0,2}|work\d{0,2}|wrk|nobackup|gpfs|lustre|beegfs|people|netscratch|flash"


def _address(match: re.Match[str], _: Sequence[str]) -> bool:
    """Return whether letters around an @ are an e-mail address, not a systemd unit, a library or a git remote."""
    return not UNITS.search(match[0]) and not match[0].startswith("git@")


def _own(match: re.Match[str], _: Sequence[str]) -> bool:
    """Return whether a folder belongs to one person."""
    return match["user"].lower() not in COMMON and not match["user"].startswith(".")


def _account(match: re.Match[str], _: Sequence[str]) -> bool:
    return match["user"].lower() not in NO_ACCOUNT


PEOPLE = (
    form(
        name="e-mail address",
        context="anywhere",
        pattern=r"(?<![\w.+/-])(?P<email>[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![\w-])",
        keep=_address,
        hints=("@",),
    ),
    form(
        name="prompt",
        context="user@host before a path, $, # or %",
        pattern=rf"(?<![\w.-])(?P<user>{ACCOUNT})@(?P<host>[A-Za-z][\w.-]{{0,63}})"
        r"(?=:[~/]|\s~|\s?[\]$#%]|\s[^\]\n]{1,60}\][$#%])",
        hints=("@",),
        learnt=True,
    ),
    form(
        name="shell on another machine",
        context="the argument of ssh, scp, rsync, sftp and mosh",
        pattern=rf"\b(?:ssh|scp|sftp|mosh|rsync|ssh-copy-id)\s(?:[\w./:=-]{{1,60}}\s){{0,8}}?(?P<user>{ACCOUNT})@"
        r"(?P<host>[A-Za-z][\w.-]{0,63})?|\bssh\s(?:-[\w./:=-]{1,60}\s){0,4}(?P<host2>[A-Za-z][\w-]{0,30}\d[\w.-]{0,40})",
        hints=("ssh", "scp", "sftp", "mosh", "rsync"),
        learnt=True,
    ),
    form(
        name="home folder",
        context="below /home, /Users, /home2, /homes, and /root",
        pattern=rf"(?:^|(?<=//)|(?<![\w./~\\-]))(?P<home>/root(?![\w.-])|/(?:(?:var|export|usr)/)?(?:home\d{{0,2}}"
        rf"|homes|Users)/"
        rf"(?:(?:users|staff|students|people|grad|faculty|[a-z])/)?{NAME})",
        hints=("/home", "/users", "/root"),
    ),
    form(
        name="name of a home folder",
        context="the part after home, Users or users of any path",
        pattern=rf"(?:/(?:home\d{{0,2}}|homes|[Uu]sers)/(?:(?:users|staff|students|people|grad|faculty|[a-z])/)?"
        rf"|\\{{1,2}}[Uu]sers\\{{1,2}}|[A-Za-z]:/Users/)(?P<user>{NAME})",
        hints=("home", "users"),
        learnt=True,
    ),
    form(
        name="folder of a user",
        context="the part after scratch, work and the like, but what many share (models, tmp, …)",
        pattern=rf"/(?:(?:{WORK})/(?:(?:home|users?|scratch|work|sd|[a-z])/){{0,2}}|u/|u\d/(?:[a-z]/)?"
        rf"|media/(?=[^/\s]+/)|run/media/|afs/[\w.-]+/u(?:ser)?/(?:[a-z]/)?"
        rf"|var/(?:mail|spool/(?:mail|cron(?:/crontabs)?))/|tmp/(?:torchinductor|triton|hsperfdata|vscode"
        rf"|pyright|numba|tmux)_)(?P<user>{NAME})",
        keep=_own,
        hints=(
            "scratch",
            "work",
            "wrk",
            "nobackup",
            "gpfs",
            "lustre",
            "beegfs",
            "people",
            "flash",
            "/u",
            "media/",
            "afs/",
            "var/",
            "tmp/",
        ),
    ),
    form(
        name="home of a user by his name",
        context="~name, before / or alone",
        pattern=r"(?<![\w.~/\\)+-])~(?P<user>[A-Za-z_][\w-]{2,31})(?=/|:|$|[\s\"',;)])",
        keep=lambda match, _: match["user"] not in {"root", "user", "amd64"},
        hints=("~",),
    ),
    form(
        name="account",
        context='user=, username:, LOGNAME=, SUDO_USER=, uid=1000(…), "user": "…"',
        pattern=r"(?i)(?:(?<![A-Za-z0-9])(?:user|username|user_name|logname|login|owner|uid)\\?[\"']?(?:="
        r"|[ \t]{0,20}:)[ \t]{0,20}\\?[\"']?"
        rf"|(?<![\w])(?:[ug]id=|groups=|,)\d+\()(?P<user>{ACCOUNT})",
        keep=_account,
        hints=("user", "logname", "login", "owner", "id="),
        learnt=True,
    ),
    form(
        name="account in words",
        context="for user …, sudo -u …, su - …, chown …:, usermod -aG group …, sudo: … :",
        pattern=r"\b(?:(?:for|by|invalid|of|as|from) user |sudo (?:-[A-Za-z] ){0,3}-u |su - |su -l |chown (?:-R )?"
        r"|usermod -a?G [\w,]{1,60} |adduser |useradd (?:-[a-z] )?"
        rf"|sudo:[ ]{{1,20}}|session opened for user |loginctl \w{{1,30}}-linger )[\"']?(?P<user>{ACCOUNT})",
        keep=_account,
        hints=("user", "su", "chown", "loginctl"),
        learnt=True,
    ),
    form(
        name="row of accounts",
        context="a line of /etc/passwd, of ps aux and of ls -l",
        pattern=rf"(?m)^(?P<user>(?!root:){ACCOUNT}):[x*!]?:\d+:\d+:(?P<user2>[^:\n]*):"
        rf"|^(?P<user3>(?!root[ ])[a-z_][\w.-]{{2,31}}\+?)[ ]+\d+[ ]+[\d.]+[ ]+[\d.]+[ ]+\d+[ ]+\d+[ ]"
        rf"|^[-dlbcps][rwxsStT-]{{9}}[.+@]?[ ]+\d+[ ]+(?P<user4>(?!root[ ]){ACCOUNT})[ ]",
        hints=(":x:", ":*:", ":!:", "::", ".", "r"),
        learnt=False,
    ),
)


HOST = r"[A-Za-z][\w.-]{0,63}"
_NO_HOST = """the a an is at in on of to and with for name names port your this that all any each one not no none null
    true false localhost compute memory cpu gpu driver device kernel process processes side code function
    pointer compiler only container bridge header headers file files list type"""
NO_HOST = frozenset(_NO_HOST.split())


def _names(match: re.Match[str], _: Sequence[str]) -> bool:
    """Return whether the word after "host" or "node" is a name."""
    said = next(filter(None, (match.groupdict().get(group) for group in ("host", "host2", "host3"))), "")
    return said.lower().rstrip(".") not in NO_HOST


HOSTS = (
    form(
        name="host of a log",
        context="in the lines of syslog, uname, NCCL, Open MPI, Slurm and hostnamectl",
        pattern=r"(?m)^(?:[A-Z][a-z]{2}\s{1,2}\d{1,2}\s[\d:]{8}"
        r"|\d{4}-\d\d-\d\dT[^\s]{1,40})\s(?P<host>[\w.-]{1,64})\s(?=[\w./-]{1,60}(?:\[\d{1,9}\])?:)"
        r"|\bLinux\s(?!(?:Server|Workstation|Client|release|kernel|version|Mint|Enterprise)\b)(?P<host2>[\w.-]{1,64})\s\d+\.\d"
        r"|^(?:\[?rank\s?\d{1,6}\]?:\s)?(?P<host3>[\w.-]{1,64}):\d{1,7}:\d{1,7}\s\[\d{1,3}\]\s"
        rf"|^\[(?P<host4>{HOST}):\d{{2,7}}\](?=[ \t])|\b(?:srun|slurmstepd|salloc): (?:error: "
        rf"|Nodes )(?:\*\*\* (?:JOB|STEP) [\d.]{{1,20}} ON )?(?P<host5>{HOST}(?:\[[\d,-]{{1,200}}\])?)(?=:"
        rf"| are| CANCELLED)"
        rf"|[Ss]tatic hostname:[ ](?P<host6>{HOST})",
        hints=(":", "linux"),
        learnt=True,
    ),
    form(
        name="host in a variable or flag",
        context="HOSTNAME=, NODELIST=, MASTER_ADDR=, COMM_ID=, --host, --master-addr, --rdzv-endpoint, --nodelist",
        pattern=r"(?:HOSTNAME|NODENAME|NODELIST|MASTER_ADDR|SUBMIT_HOST|O_HOST|HOSTS?|HOSTID|COMM_ID|HEAD_NODE"
        r"|SERVERNAME|TOPOLOGY_ADDR)[\"']?[=:][ ]?[\"']?"
        rf"(?P<host>{HOST}(?:\[[\d,-]{{1,200}}\][\w.-]{{0,64}})?)"
        rf"|--(?:host(?:name)?|node(?:list|name)?|master[-_]addr|rdzv[-_]endpoint|dist-init-addr|head-node"
        rf"|address|server)[= ][\"']?(?P<host2>{HOST}(?:\[[\d,-]{{1,200}}\])?)"
        rf"|\b(?:hostname|systemd\.hostname|nodename|node_name"
        rf"|fqdn)[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}}[\"']?(?P<host3>{HOST})",
        keep=_names,
        hints=("host", "node", "addr", "comm_id", "servername", "--"),
        learnt=True,
    ),
    form(
        name="host of the kernel's command line and of mounts",
        context="the fifth part of ip=, the server before :/ or after // of a mount, an LNet",
        pattern=rf"\bip=(?:[^:\s]{{0,64}}:){{4}}(?P<host>{HOST})(?=:|\s|$)"
        rf"|(?m:^)(?P<host2>{HOST}):/[^\s]{{0,200}}(?=\s+(?:on\s+)?/)"
        rf"|(?m:^)//(?P<host3>{HOST})/[^\s]{{1,200}}\s+(?:on\s+)?/"
        rf"|\bnfsroot=(?P<host4>{HOST}):",
        hints=("ip=", ":/", "//", "nfsroot"),
        learnt=True,
    ),
    form(
        name="host in words",
        context="on node …, host … is, Connected to …, ping …",
        pattern=r"\b(?i:(?:on|from|to|at|of) (?:node|host|machine|server)|could not resolve host(?:name)?:?"
        r"|unknown host:?|connect(?:ed|ing)? to host|ping|nslookup|dig|ssh: connect to host)"
        r"[ ][\"']?(?P<host>[A-Za-z](?=[A-Za-z.-]{0,40}\d|[\w-]{1,40}\.[\w.-]{1,60}[A-Za-z])[\w.-]{0,63})",
        keep=_names,
        hints=("node", "host", "machine", "server", "ping", "nslookup", "dig"),
        learnt=True,
    ),
    form(
        name="private domain",
        context="names that end as only an organisation's own do, and names of machines in clouds",
        pattern=r"(?i)(?<![\w./-])(?P<host>(?:[a-z0-9](?:[a-z0-9-]{0,62})\.){1,8}(?:local|lan|internal|corp|intra"
        r"|intranet|localdomain|private|edu|gov|mil"
        r"|compute(?:-\d)?\.amazonaws\.com|cloudapp\.azure\.com))(?![\w-]|\.[a-z])"
        r"|(?P<host2>\bip-(?:\d{1,3}-){3}\d{1,3}(?:\.[a-z][\w-]{0,62}){0,6})",
        hints=(".local", ".lan", ".in", ".corp", ".private", ".edu", ".gov", ".mil", ".amazonaws", ".azure", "ip-"),
    ),
)
