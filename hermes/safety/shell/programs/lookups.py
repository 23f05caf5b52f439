"""Programs that only ask: a name that is looked up, or an argument of a question, carries what stands in it away.

Nobody minds a look-up as such. That it sends something is noted, so that it is asked about while untrusted content
is in the conversation.
"""

import re
from collections.abc import Callable, Iterator

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import FETCHED, SECRET, ShellStream, Word, word_set

Rule = Callable[[ProgramCall], ShellStream | None]
UNKNOWN = "?"
"""Stands for a host that cannot be told."""
_NAMED: dict[str, str] = {
    # By program: the letters with a value. Its operands are names of hosts, or hold them.
    "dig": "bcfkpqtxyi", "host": "cDmNRtW", "nslookup": "", "drill": "ckoTwit", "delv": "acdpqtx", "kdig": "bkpqtxy",
    "doggo": "", "dog": "", "unbound-host": "tcCyfrD", "avahi-resolve": "", "systemd-resolve": "it",
    "ping": "cIitWswlMmpQST", "ping6": "cIitWswlMmpQST", "fping": "bBcCHiIlMNoOpQrStT", "arping": "cwIsS",
    "hping3": "cipdE", "nping": "cpg", "traceroute": "fgimNpqstwzD", "traceroute6": "fgimNpqstw", "tracepath": "lmp",
    "tracert": "hjw", "mtr": "cfFimQsBPTZo", "whois": "hpisTV", "finger": "", "ssh-keyscan": "pTt", "nmap": "pgSe",
    "masscan": "p", "ntpdate": "", "sntp": "", "rdate": "", "showmount": "", "rpcinfo": "n", "smbclient": "UWmpIc",
    "nmblookup": "BU", "snmpget": "vclruaAxXtOM", "snmpwalk": "vclruaAxXtOM", "snmpset": "vclruaAxXtOM",
    "snmpgetnext": "vclruaAxXtOM", "snmpbulkwalk": "vclruaAxXtOM", "snmptrap": "vclruaAxXtOM", "grpcurl": "dHv",
    "wscat": "cxH", "websocat": "H", "iperf": "cpt", "iperf3": "cpt", "cqlsh": "upek", "mongo": "up", "mongosh": "up",
    "wakeonlan": "ip", "nbtscan": "", "w32tm": "", "ike-scan": "", "sslscan": "", "testssl": "", "testssl.sh": "",
}  # fmt: skip
_HOST_OPTIONS: dict[str, str] = {
    # By program: the options whose value is a host.
    **dict.fromkeys(
        word_set(
            """
            psql pg_dump pg_dumpall pg_restore pg_isready createdb pgcli mysql mariadb mysqldump mysqladmin mysqlimport
            mycli redis-cli valkey-cli mongoexport mongodump clickhouse-client clickhouse cockroach influx
            mosquitto_pub mosquitto_sub ldapsearch ldapwhoami ldapadd ldapmodify iperf iperf3 mongo mongosh whois
            usql sqlcmd bcp isql tsql cqlsh vsql snowsql
            """
        ),
        r"-h|-H|-S|--host(name)?|--server|--uri|-c",
    ),
    "logger": r"-n|--server",
    "kcat": r"-b",
    "kafkacat": r"-b",
    "gpg": r"--keyserver",
    "gpg2": r"--keyserver",
    "openssl": r"-connect|-host|-proxy|-servername|-url",
}
_VERBS: dict[str, str] = {
    # By program: words with which it asks a place that its settings name.
    "getent": r"a?hosts(v[46])?\b",
    "resolvectl": r"(query|service|openpgp|tlsa)\b",
    "gpg": r".*--(recv|search|send|refresh|locate|fetch)(-external)?-keys?|.*--auto-key",
    "gpg2": r".*--(recv|search|send|refresh|locate|fetch)(-external)?-keys?|.*--auto-key",
    **dict.fromkeys(
        ("npm", "pnpm", "yarn"),
        r"(npm )?(view|info|show|v|search|find|s|ping|audit|outdated|docs|repo|bugs|owner|dist-tags?|whoami|access|"
        r"star|pack|fund)\b",
    ),
    **dict.fromkeys(("pip", "pip3"), r"(index|search|download|wheel|list (.* )?(-o|--outdated))\b"),
    "gem": r"(search|info|fetch|specification|outdated|contents? .*-r|list .*-r)\b",
    "cargo": r"(search|info|fetch|owner)\b",
    "go": r"(list .*-m|get|mod download|install|run \S+@)",
    "brew": r"(search|fetch|info|home)\b",
    "docker": r"(pull|push|search|manifest|login|buildx imagetools)\b",
    "podman": r"(pull|push|search|manifest|login)\b",
    "svn": r"(ls|list|log|info|cat|co|checkout|up|update|export|ci|commit|import|diff|blame|mkdir|copy|cp|lock)\b",
    "hg": r"(clone|pull|push|incoming|outgoing|identify|id)\b",
    "git": r"(-\S+ )*(remote (show|update|prune)|submodule (add|update)|archive .*--remote)\b",
    "gh": r"(?!auth status|--version|version|help|completion|config|alias)\w",
    "helm": r"(pull|fetch|repo (add|update)|search hub|show)\b",
    **dict.fromkeys(("skopeo", "crane", "regctl", "oras"), r"\w"),
}
_PATTERNS = {name: re.compile(text, re.IGNORECASE) for name, text in _VERBS.items()}
_OPTIONS = {name: re.compile(f"({text})$") for name, text in _HOST_OPTIONS.items()}
_OTHERS = word_set(
    "aws gsutil s3cmd s4cmd s5cmd rclone mc az gcloud azcopy b2 ocsp xmllint pandoc ffprobe ffmpeg yt-dlp"
)
"""Programs that reach what an address among their words names."""
PROGRAMS = frozenset((*_NAMED, *_HOST_OPTIONS, *_VERBS, *_OTHERS))
_ADDRESS = re.compile(r"\w+://(?:[^@/\s]*@)?(\[[^\]]*\]|[^/:?#\s]+)")
_HERE = re.compile(r"(localhost|127\.[\d.]+|\[?::1\]?|0\.0\.0\.0|/.*|\.|)$")
_NO_NAME = re.compile(r"[-+]|(in|any|a|aaaa|txt|mx|ns|cname|soa|srv|ptr|caa|hs|ch|https|svcb)$|\d{1,5}$", re.IGNORECASE)
_ANSWERS = word_set("dig host nslookup drill delv kdig whois finger")
"""Programs whose answer is a text that somebody else wrote."""
_UNTRUSTED_ANSWERS = _ANSWERS | {"gh"}
_ITS_OWN = {"gh": "github.com", "git": "origin"}
"""The host that a program asks when it is told nothing else."""
_BY_FILE = ("-f", "-iL", "-if")
_MOST = 12


def beside(rule: Rule | None) -> Rule:
    """A rule, and that the program sends what it asks."""

    def judge(call: ProgramCall) -> ShellStream | None:
        _note(call)
        out = rule(call) if rule is not None else None
        return ShellStream(None, frozenset({FETCHED})) if out is None and call.name in _ANSWERS else out

    return judge


def _note(call: ProgramCall) -> None:
    hosts = {_bare(text) for text in _hosts(call)}
    hosts = {host for host in hosts if not _HERE.match(host)}
    if not hosts:
        return
    call.add_effect(EffectKind.SENDS, sorted(hosts))
    if call.name in _UNTRUSTED_ANSWERS:
        call.add_effect(EffectKind.FETCHES, sorted(hosts))
    named = call.name in _NAMED or call.name == "getent"
    if named and any(SECRET in word.labels for word in call.words):
        call.ask("exfiltration", "it sends keys away inside a host name")


def _hosts(call: ProgramCall) -> Iterator[str]:
    """The hosts that a call reaches, as they are written."""
    for text in call.args[:40]:
        if "://" in text and (found := _ADDRESS.search(text)):
            yield found[1]
    if call.name in _NAMED:
        yield from _operands(call)
    if call.name in _OPTIONS:
        yield from _values(call)
    pattern = _PATTERNS.get(call.name)
    if pattern is not None and pattern.match(" ".join(call.args[:20])):
        yield from (
            (call.args[1:_MOST] or [UNKNOWN])
            if call.name in ("getent", "resolvectl")
            else [_ITS_OWN.get(call.name, "registry")]
        )


def _operands(call: ProgramCall) -> Iterator[str]:
    names = [word for word in call.parse_options(_NAMED[call.name]).operands if not _NO_NAME.match(word.text)]
    yield from (word.text for word in names[:_MOST])
    if (not names and call.fed) or len(names) > _MOST or not {*_BY_FILE}.isdisjoint(call.args):
        yield UNKNOWN


def _values(call: ProgramCall) -> Iterator[str]:
    """The values of options that name a host: behind it, behind `=`, or touching a letter."""
    pattern = _OPTIONS[call.name]
    for at, word in enumerate(call.words[:40]):
        option, equals, value = word.text.partition("=")
        if equals and (pattern.match(option) or option in ("host", "hostaddr")):
            yield value.partition(" ")[0]
        elif pattern.match(word.text) and at + 1 < len(call.words) and _is_host(call.words[at + 1]):
            yield call.args[at + 1]
        elif len(word.text) > 2 and word.text[1] != "-" and pattern.match(word.text[:2]) and call.name != "openssl":
            yield word.text[2:]


def _is_host(word: Word) -> bool:
    return not any(sign in word.text for sign in " ;,*(")


def _bare(text: str) -> str:
    """The host in a text such as `user@host:22`, `@server` or `host/24`."""
    text = text.rpartition("@")[2]
    return text if text.startswith(("/", "[")) else text.partition("/")[0].partition(":")[0].strip(",")
