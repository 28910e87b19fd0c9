"""Secrets that are known by the name before them: variables, flags, keys of files, headers, addresses of the web."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpustack.redaction.form import NOTHING, Finder, Form, Found, shape

# What a name ends in that holds a secret; "tokens" and "tokenizer" do not end so.
WORD = (
    r"token|secret|passw(?:or)?d|passwd|passphrase|passcode|credentials?|cookie|auth(?:orization)?|api[_.-]?key|psk|jwt"
    r"|(?:access|account|storage|master|signing|session|private|secret|ssh|auth|licen[cs]e|encryption|product|deploy"
    r"|shared|admin|service|recovery|host)[_.-]?key(?:[_.-](?:id|data|base64))?|session[_-]?id|client[_-]key[_-]data"
    r"|webhook(?:[_-]?url)?|connection[_-]?string|(?:[cx]srf|otp|totp)(?:[_-]?token)?"
)
LOUD = r"(?:TOKEN|SECRET|PASSW(?:OR)?D|CREDENTIALS?|COOKIE|APIKEY|_KEY|_PAT|_PSK|_PASS|_PWD)(?:_[A-Z0-9_]{0,40})?"
SHORT = r"(?:^|[_.-])(?:pass|pwd|pw)"  # these stand for paths, passes and counts as well: see _worth
CAMEL = r"[a-z0-9](?:Password|Passwd|Token|Secret|ApiKey|AccessKey|PrivateKey|Credential|Pwd)"
SECRET_NAME = re.compile(rf"(?:(?<![A-Za-z])(?i:{WORD})|(?i:{SHORT})|{LOUD}|{CAMEL})$")
SHORT_NAME = re.compile(rf"(?i){SHORT}$")
COUNTED = re.compile(r"(?i)(?:token|session[_-]?id|otp|auth)$")  # "token: 128" counts tokens
DIRECTORY = re.compile(r"(?:OLD)?PWD")
MOST_NAME = 100

SCHEME = r"(?i:(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey|AWS4-HMAC-SHA256)[ \t]{1,8})?"
VALUE = re.compile(
    rf"[ \t]{{0,40}}{SCHEME}(?:\\?\"([^\"\\\n]*)|'([^'\n]*)|([^\s\"',;&|)\]}}<>\\][^\s\"',;&|)\]}}<>\\]*"
    rf"|<[^\s<>/]{{1,200}}))"
)
NOT_SAID = re.compile(r"\$[\w{(]|\*{3,}|<\w{1,24}>$|</?s>$|\[[A-Z]{1,8}\]$|%[A-Z_]{2,40}%$|x{3,}$|\.{3}")
RUN = r"(?<![\w.-])([\w.-]+)"


def secret_name(name: str) -> bool:
    """Return whether what has this name is a secret."""
    return SECRET_NAME.search(name[-MOST_NAME:]) is not None and not DIRECTORY.fullmatch(name)


def _worth(name: str, value: str) -> bool:
    """Return whether a value under a name of a secret is one: no count, no word for nothing, no reference to it."""
    if value.lower() in NOTHING or NOT_SAID.match(value) or not value.strip():
        return False
    if value.isdecimal() and COUNTED.search(name):
        return False
    if SHORT_NAME.search(name) and not name.isupper():
        return len(value) > 3 and not value.isdecimal() and not value.startswith(("/", "~", "."))  # noqa: PLR2004 - "yes", "12"
    return not (SHORT_NAME.search(name) and value.startswith("/"))


def after(head: str) -> Finder:
    """Return a finder of the value behind a head, whose first group is the name that says whether it is a secret."""
    begins = re.compile(head)

    def find(text: str, _: Sequence[str]) -> Iterator[Found]:
        at = 0
        while match := begins.search(text, at):
            at = match.end()
            if secret_name(match[1]) and (held := VALUE.match(text, at)):
                at = held.end()
                group = held.lastindex or 0
                value = held[group].rstrip(".") if group == 3 else held[group]  # noqa: PLR2004 - the unquoted one
                if _worth(match[1], value):
                    start = held.start(group)
                    yield Found(start, start + len(value), "secret", value)

    return find


ASSIGNED = (
    Form(
        name="user and password of an address",
        context="between :// and @, the password of any length; the host behind it is taken out too",
        find=shape(
            r"://(?!git@)(?P<secret>[^\s/@:\"'<>`]*(?::(?:[^\s\"'<>/@`]*|(?!\d{1,5}(?:/|$))(?:(?!://)[^\s\"'<>`])+))?)"
            r"@(?![^\s/@]{0,256}@)(?P<host>[^\s/:@\"'<>`,;)]+)"
        ),
        hints=("://",),
        examples=(
            "https://«bob:s3cr3t»@«pypi.corp.example»/simple",
            "https://«tok3n»@«gitlab.corp.example»/x.git",
            f"https://«bob:{'pw' * 300}»@«corp.example»/simple",
            "postgres://«bob:p/a?s#s»@«db.corp.example»:5432/x",
            "mysql+pymysql://«bob:p@ss»@«db7»/x",
            "mongodb+srv://«u:pw»@«c0.abcd.mongodb.net»/x",
            "redis://«:hunter2»@«cache7»:6379/0",
            "amqp://«guest7:pw»@«rabbit7»//",
            "index-url = https://«__token__:hunter2»@«pypi.corp»/simple",
            "http_proxy=http://«alice:pw»@«proxy.corp»:3128",
            "ftp://«alice»@«files.corp»/x",
        ),
        stays=(
            "git+https://github.com/vllm-project/vllm@v0.10.1",
            "ssh://git@github.com/x/y",
            "http://localhost:8000/a@b",
            "https://pypi.example/torch@2.7",
            "torch @ https://download.pytorch.org/whl/cu128",
        ),
    ),
    Form(
        name="signed address",
        context="the value of a query's signature, key or token",
        find=shape(
            r"[?&;](?i:x-(?:amz|goog)-(?:signature|credential|security-token)|sig(?:nature)?|key|(?:key-pair"
            r"|policy)-?id"
            rf"|[\w-]{{0,40}}(?:{WORD}))=(?P<secret>[^&\s\"'<>;]+)"
        ),
        hints=("=",),
        examples=(
            "https://a.example/x?sig=«abc%2Bdef»&y=1",
            "https://b.s3.amazonaws.com/o?X-Amz-Credential=«AKIA0%2F2026»&X-Amz-Expires=60&X-Amz-Signature=«deadbeef01»",
            "https://s3/o?X-Amz-Security-Token=«IQoJb3JpZ2lu»",
            "https://storage.googleapis.com/o?X-Goog-Signature=«0a1b2c»",
            "https://x.blob.core.windows.net/c?sv=2024-11-04&se=2026-01-01&sig=«dGVzdA%3D%3D»",
            "https://x.example/?access_token=«abc123»",
            "https://x.example/?api_key=«abc»&b=1",
            "https://d1.cloudfront.net/f?Signature=«abc~»&Key-Pair-Id=K1",
        ),
        stays=("https://x.example/?version=13.0&page=2", "https://x.example/?keyboard=de", "a?key"),
    ),
    Form(
        name="assignment",
        context='NAME=value, NAME: value, "name": "value", --name=value, where the name ends in a word for a secret',
        find=after(rf"{RUN}\\?[\"']?\]?[ \t]{{0,40}}(?::=|=>|=(?!=)|:)"),
        hints=("=", ":"),
        examples=(
            "WANDB_API_KEY=«0123456789abcdef»",
            "AWS_SECRET_ACCESS_KEY='«a b/c»'",
            "MYTOKEN=«abc»",
            "DB_PWD=«hunter2»",
            "DB_PASS=«hunter2»",
            "db.pwd: «hunter2»",
            "pass: «hunter2»",
            "user=x pass=«hunter2»",
            "PGPASSWORD=«hunter2» psql",
            "password: «12345678», DB_PASSWORD=«4711»",
            "export GITHUB_TOKEN=«abc»",
            'export HF_TOKEN="«abc def»"',
            "set X_TOKEN=«abc»",
            '$env:X_TOKEN = "«abc»"',
            "docker run -e NGC_API_KEY=«abc» x",
            "--hf-token=«def456»",
            "--password=«x»",
            "-Dspring.datasource.password=«x1»",
            'os.environ["HF_TOKEN"] = "«abc»"',
            "login(token='«abc»')",
            '{"password": "«hunter2»", "n": 1}',
            '{\\"password\\": \\"«hunter2»\\"}',
            "{'api_key': '«x1y2»'}",
            'client_secret = "«abc»"',
            "dbPassword: «abc»",
            "secret-key: '«a b»'",
            "password      : «hunter2»",
            "passphrase=«correct»",
            "{'auths': {'nvcr.io': {'auth': '«JG9hdXRodG9rZW4=»'}}}",
            "client-key-data: «LS0tLS1CRUdJTg==»",
            "Server=db;Uid=u;Pwd=«hunter2»;",
            "AccountName=x;AccountKey=«abcDEF123456==»;EndpointSuffix=y",
            "Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey=«abc=»",
            "//registry.example.org/:_authToken=«abc»",
            "//registry.example.org/:_password=«abc»",
            "wpa_psk=«0a1b2c3d»",
            "SLACK_WEBHOOK_URL=«https://x.example/abc»",
            "GITHUB_PAT=«abc»",
            "sent: token=«abcdef».",
            "Authorization: Bearer «abcdefgh12345678»",
            "Authorization: Basic «dXNlcjpwYXNz»",
            "curl -H 'X-Api-Key: «abc»'",
            "PRIVATE-TOKEN: «abc»",
            "X-Auth-Token: «abc»",
            "Proxy-Authorization: Basic «dXNlcg==»",
        ),
        stays=(
            "max_tokens=128, tokenizer: x, token: 5",
            "TOKENIZERS_PARALLELISM=false",
            "--max-num-batched-tokens=8192",
            "PWD=/opt/app OLDPWD=/srv",
            "pass: 12, fail: 0",
            "pass: yes",
            "bypass: on, compass: north, passed=3",
            "pad_token='<pad>' eos_token=</s>",
            "HF_TOKEN=$HF_TOKEN",
            "password: ***",
            "auth: none",
            "key: value, keys=3",
            "google-auth==2.30.0",
            "author: anonymous",
        ),
    ),
    Form(
        name="flag",
        context="--name value, where the name ends in a word for a secret",
        find=after(r"(?<![\w.-])(--?[A-Za-z][\w.-]*)[ \t](?![ \t]*-)"),
        hints=("-",),
        examples=(
            "vllm serve --api-key «abc123» --hf-token «def456»",
            "--docker-password «x1» --email y",
            "mysql --password «hunter2»",
            "az login --client-secret '«a b»'",
        ),
        stays=("--max-num-batched-tokens 8192", "--tokenizer mistral", "--token --verbose", "--pass-through x"),
    ),
    Form(
        name="password of a program",
        context="-p of sshpass, docker login and mysql; user:password of curl; login … password of .netrc",
        find=shape(
            r"(?:(?<=\s)-pass(?:in|out)? pass:|\b(?:sshpass[ ]-p[ ]?|docker login[^\n]{0,200}?[ ]-p[ ]"
            r"|mysql(?:dump)?[^\n]{0,100}?[ ]-p(?=\S)"
            r"|curl[^\n]{0,200}?[ ](?:-u|--user)[ ][^\s:]{1,64}:|redis-cli[^\n]{0,100}?[ ]-a[ ]"
            r"|login[ \t]\S{1,64}\s{1,20}password[ \t]|(?i:password (?:is|was|for \S{1,40} is)[ ])|IDENTIFIED BY ))"
            r"[\"']?(?P<secret>[^\s\"']+)"
        ),
        hints=("sshpass", "docker", "mysql", "curl", "redis-cli", "pass", "identified"),
        examples=(
            "sshpass -p «hunter2» ssh x",
            "sshpass -p'«hunter2»' ssh x",
            "docker login -u x -p «hunter2» nvcr.io",
            "mysql -u root -p«hunter2»",
            "curl -sS -u me:«hunter2» https://x",
            "redis-cli -h x -a «hunter2» ping",
            "openssl rsa -passin pass:«hunter2»",
            "machine github.com login me password «hunter2»",
            "the password is «hunter2»",
            "IDENTIFIED BY '«hunter2»'",
        ),
        stays=("docker run -p 8080:80 x", "mkdir -p /opt/x", "ssh -p 22 x", "curl -u", "the bypass is on"),
    ),
    Form(
        name="variable set by a word",
        context="setenv, ENV, putenv, setdefault, set -x with a name for a secret",
        find=after(r"\b(?:setenv|ENV|ARG|putenv|setdefault|set -g?U?x)[ (][\"']?([\w.-]+)[\"']?(?:,[ ]?|[ \t])"),
        hints=("env", "arg", "set"),
        examples=(
            "setenv HF_TOKEN «abc»",
            "ENV HF_TOKEN «abc»",
            'os.environ.setdefault("HF_TOKEN", "«abc»")',
            "set -gx HF_TOKEN «abc»",
        ),
        stays=("ENV CUDA_VERSION 13.0.1", "setenv LD_LIBRARY_PATH /usr/local/cuda/lib64"),
    ),
    Form(
        name="name and value apart",
        context="name: NAME with value: …, as in Kubernetes, XML and JSON",
        find=after(
            r"\b(?:name|key)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([\w.-]+)[\"']?,?\s{1,80}"
            r"[\"']?value[\"']?[ \t]{0,4}[:=]"
        ),
        hints=("value",),
        examples=(
            "- name: HF_TOKEN\n  value: «abc»",
            '{"name": "HF_TOKEN", "value": "«abc»"}',
            '<add key="password" value="«abc»"/>',
        ),
        stays=("- name: NCCL_DEBUG\n  value: INFO",),
    ),
    Form(
        name="element of XML",
        context="<name>value</name>",
        find=after(r"<([\w.-]{1,60})>(?=[^<\n])"),
        hints=("</",),
        examples=("<password>«abc»</password>", "<apiKey>«abc»</apiKey>"),
        stays=("<serial_port>COM1</serial_port>", "<driver_version>580.95.05</driver_version>"),
    ),
    Form(
        name="cookie or passphrase",
        context="the rest of the line after Cookie:, Set-Cookie: and passphrase:",
        find=shape(
            r"(?i)\b(?:cookie|passphrase)\\?[\"']?[ \t]{0,20}:[ \t]{0,20}\\?[\"']?(?P<secret>[^\s\"'\\][^\n\r\"'\\]*)"
        ),
        hints=("cookie", "passphrase"),
        examples=(
            "Cookie: «sid=abc; other=def»",
            "Set-Cookie: «sid=abc; Path=/»",
            "passphrase: «correct horse battery»",
        ),
        stays=("cookies: 3", "no passphrase given"),
    ),
    Form(
        name="bearer",
        context="after Bearer or Basic",
        find=shape(r"\b(?i:Bearer|Basic)[ \t](?P<secret>[\w.~+/=-]{16,})"),
        hints=("bearer", "basic"),
        examples=("sent: Bearer «abcdefgh12345678»", "Basic «dXNlcjpwYXNzd29yZA==»"),
        stays=("Basic block", "bearer of news"),
    ),
)
