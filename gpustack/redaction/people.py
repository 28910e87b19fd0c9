"""Who: e-mail addresses, accounts, prompts, home folders and the folders that clusters give to each user."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpustack.redaction.form import Form, shape

# Names of accounts and machines that many share: they tell nobody, and are words of the stack besides.
_SHARED = """root ubuntu debian fedora centos rocky alpine user users admin test guest nvidia cuda gpu gpus cpu vm
localhost docker container runner jovyan vagrant ec2-user azureuser conda mamba app dev work worker node server host
linux python torch pytorch jax default build builder jenkins ray spark dask vllm triton ollama linuxbrew shared public
home data opt usr lib bin src model models kernel systemd mac email serial secret uuid"""
SHARED = frozenset(_SHARED.split())
# Folders that stand where a user's would: they are everybody's.
_COMMON = """tmp temp proj cache caches datasets dataset project projects env envs venv .venv venvs containers images
    image software apps local system libs log logs job jobs slurm results checkpoints ckpt group groups common
    git workspace repo repos code install modules spack easybuild miniconda miniconda3 anaconda3 miniforge3
    huggingface hub weights output outputs input runs scratch etc var share all www html _work a b c x
    site-packages lost+found"""
COMMON = SHARED | frozenset(_COMMON.split())
UNITS = re.compile(r"\.(?:service|socket|target|timer|mount|slice|scope|device|path|so|py|json|git|whl)$")
NAME = r"[^/\\\s:;,\"'<>|&()\[\]{}$*?=#`]+(?:[ ][A-Z][^/\\\s:]{0,40}(?=[/\\])){0,3}"
ACCOUNT = r"[A-Za-z_][\w.-]{0,63}"
WORK = r"(?:l|local_?|p|f|b|t)?scratch\d{0,2}|work\d{0,2}|wrk|nobackup|gpfs|lustre|beegfs|people|netscratch|flash"


def _address(match: re.Match[str], _: Sequence[str]) -> bool:
    """Return whether letters around an @ are an e-mail address: no unit of systemd, no library, no remote of git."""
    return not UNITS.search(match[0]) and not match[0].startswith("git@")


def _own(match: re.Match[str], _: Sequence[str]) -> bool:
    """Return whether a folder is one person's."""
    return match["user"].lower() not in COMMON and not match["user"].startswith(".")


def _account(match: re.Match[str], _: Sequence[str]) -> bool:
    return match["user"].lower() not in {
        "root",
        "nobody",
        "id",
        "name",
        "is",
        "none",
        "null",
        "the",
        "for",
        "and",
        "to",
        "mode",
        "space",
    }


PEOPLE = (
    Form(
        name="e-mail address",
        context="anywhere",
        find=shape(
            r"(?<![\w.+/-])(?P<email>[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![\w-])", _address
        ),
        hints=("@",),
    ),
    Form(
        name="prompt",
        context="user@host before a path, $, # or %",
        find=shape(
            rf"(?<![\w.-])(?P<user>{ACCOUNT})@(?P<host>[A-Za-z][\w.-]{{0,63}})"
            r"(?=:[~/]|\s~|\s?[\]$#%]|\s[^\]\n]{1,60}\][$#%])"
        ),
        hints=("@",),
        learnt=True,
    ),
    Form(
        name="shell on another machine",
        context="the argument of ssh, scp, rsync, sftp and mosh",
        find=shape(
            rf"\b(?:ssh|scp|sftp|mosh|rsync|ssh-copy-id)\s(?:[\w./:=-]{{1,60}}\s){{0,8}}?(?P<user>{ACCOUNT})@"
            r"(?P<host>[A-Za-z][\w.-]{0,63})?|\bssh\s(?:-[\w./:=-]{1,60}\s){0,4}(?P<host2>[A-Za-z][\w-]{0,30}\d[\w.-]{0,40})"
        ),
        hints=("ssh", "scp", "sftp", "mosh", "rsync"),
        learnt=True,
    ),
    Form(
        name="home folder",
        context="below /home, /Users, /home2, /homes, and /root",
        find=shape(
            rf"(?:^|(?<=//)|(?<![\w./~\\-]))(?P<home>/root(?![\w.-])|/(?:(?:var|export|usr)/)?(?:home\d{{0,2}}"
            rf"|homes|Users)/"
            rf"(?:(?:users|staff|students|people|grad|faculty|[a-z])/)?{NAME})"
        ),
        hints=("/home", "/users", "/root"),
    ),
    Form(
        name="name of a home folder",
        context="the part after home, Users or users of any path",
        find=shape(
            rf"(?:/(?:home\d{{0,2}}|homes|[Uu]sers)/(?:(?:users|staff|students|people|grad|faculty|[a-z])/)?"
            rf"|\\{{1,2}}[Uu]sers\\{{1,2}}|[A-Za-z]:/Users/)(?P<user>{NAME})"
        ),
        hints=("home", "users"),
        learnt=True,
    ),
    Form(
        name="folder of a user",
        context="the part after scratch, work and the like, but what many share (models, tmp, …)",
        find=shape(
            rf"/(?:(?:{WORK})/(?:(?:home|users?|scratch|work|sd|[a-z])/){{0,2}}|u/|u\d/(?:[a-z]/)?"
            rf"|media/(?=[^/\s]+/)|run/media/|afs/[\w.-]+/u(?:ser)?/(?:[a-z]/)?"
            rf"|var/(?:mail|spool/(?:mail|cron(?:/crontabs)?))/|tmp/(?:torchinductor|triton|hsperfdata|vscode"
            rf"|pyright|numba|tmux)_)(?P<user>{NAME})",
            _own,
        ),
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
    Form(
        name="home of a user by his name",
        context="~name, before / or alone",
        find=shape(
            r"(?<![\w.~/\\)+-])~(?P<user>[A-Za-z_][\w-]{2,31})(?=/|:|$|[\s\"',;)])",
            lambda match, _: match["user"] not in {"root", "user", "amd64"},
        ),
        hints=("~",),
    ),
    Form(
        name="account",
        context='user=, username:, LOGNAME=, SUDO_USER=, uid=1000(…), "user": "…"',
        find=shape(
            r"(?i)(?:(?<![A-Za-z0-9])(?:user|username|user_name|logname|login|owner|uid)\\?[\"']?(?:="
            r"|[ \t]{0,20}:)[ \t]{0,20}\\?[\"']?"
            rf"|(?<![\w])(?:[ug]id=|groups=|,)\d+\()(?P<user>{ACCOUNT})",
            _account,
        ),
        hints=("user", "logname", "login", "owner", "id="),
        learnt=True,
    ),
    Form(
        name="account in words",
        context="for user …, sudo -u …, su - …, chown …:, usermod -aG group …, sudo: … :",
        find=shape(
            r"\b(?:(?:for|by|invalid|of|as|from) user |sudo (?:-[A-Za-z] ){0,3}-u |su - |su -l |chown (?:-R )?"
            r"|usermod -a?G [\w,]{1,60} |adduser |useradd (?:-[a-z] )?"
            rf"|sudo:[ ]{{1,20}}|session opened for user |loginctl \w{{1,30}}-linger )[\"']?(?P<user>{ACCOUNT})",
            _account,
        ),
        hints=("user", "su", "chown", "loginctl"),
        learnt=True,
    ),
    Form(
        name="row of accounts",
        context="a line of /etc/passwd, of ps aux and of ls -l",
        find=shape(
            rf"(?m)^(?P<user>(?!root:){ACCOUNT}):[x*!]?:\d+:\d+:(?P<user2>[^:\n]*):"
            rf"|^(?P<user3>(?!root[ ])[a-z_][\w.-]{{2,31}}\+?)[ ]+\d+[ ]+[\d.]+[ ]+[\d.]+[ ]+\d+[ ]+\d+[ ]"
            rf"|^[-dlbcps][rwxsStT-]{{9}}[.+@]?[ ]+\d+[ ]+(?P<user4>(?!root[ ]){ACCOUNT})[ ]"
        ),
        hints=(":x:", ":*:", ":!:", "::", ".", "r"),
        learnt=False,
    ),
)
