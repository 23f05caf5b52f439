"""Programs that fetch and send."""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from hermes.safety.shell import dataflow
from hermes.safety.shell.call import CommandOptions, ProgramCall, Rule, is_root_like_path
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.key_files import is_private_file
from hermes.safety.shell.programs import databases, text
from hermes.safety.shell.words import NO_LABELS, UNKNOWN_STREAM, Label, ShellStream, Word, word_set

_FETCHED = frozenset({Label.FETCHED})
_LOCAL = re.compile(r"^(localhost|127\.[\d.]+|\[?::1\]?|0\.0\.0\.0|host\.docker\.internal)$")
_CURL_NAMED = """
    request header data data-raw data-binary data-urlencode data-ascii form form-string upload-file output user
    user-agent referer cookie cookie-jar proxy url max-time connect-timeout retry cert key cacert config netrc-file json
    range resolve interface write-out dump-header output-dir unix-socket oauth2-bearer aws-sigv4 variable limit-rate
    doh-url connect-to
    """
_WGET_NAMED = """
    output-document output-file append-output input-file tries timeout user-agent header post-data post-file user
    password
    method body-data body-file directory-prefix execute accept reject level load-cookies save-cookies use-askpass wait
    """


def _host(text: str) -> str:
    try:
        return urlsplit(text if "://" in text else f"//{text}").hostname or text
    except ValueError:
        return text


_METADATA = re.compile(
    r"^(169\.254\.(169\.25[34]|170\.2|170\.23|169\.123|0\.23)|metadata(\.\w+)*|instance-data(\.\w+)*|100\.100\.100\.200|"
    r"192\.0\.0\.192|fd00:ec2:\S+|2852039166|0x[aA]9[fF][eE][aA]9[fF][eE]|0251\.0376\.0251\.0376)$"
)
"""Hosts at which clouds hand their keys to whoever asks, in the forms that an address can take."""
_FILES_SENT = "it sends files from outside the session's folder away"
_KEYS_SENT = "it sends keys or the environment away"


def judge_hosts(call: ProgramCall, hosts: Sequence[str]) -> None:
    """What speaks against asking these hosts."""
    if any(_METADATA.match(host) or re.match(r"(::ffff:)?169\.254\.", host) for host in hosts):
        call.add_effect(EffectKind.READS, hosts)
        call.ask("reads-secret", "it asks a cloud's metadata service, which hands out keys")


_DATA = ("d", "data", "data-binary", "data-urlencode", "data-ascii", "json", "F", "form", "data-raw", "form-string")
_HEADERS = ("H", "header", "u", "user", "b", "cookie", "A", "e", "K", "config", "E", "cert", "user-agent", "referer")


def curl(call: ProgramCall) -> ShellStream | None:
    """curl: where it goes, what it takes along, what it writes."""
    options = call.parse_options("XHdFToAuebcxmKErYyzCDQPtUw", _CURL_NAMED)
    urls = [*options.operands, *options.option_values("url")]
    hosts = [_host(word.text) for word in urls]
    judge_hosts(call, hosts)
    call.judge_reads([word for word in urls if word.text.lower().startswith("file:")])
    _taken_along(call, options, urls, hosts)
    _configured(call, options)
    _requests(call, options, urls, hosts)
    return _saved(call, options, urls)


def _taken_along(call: ProgramCall, options: CommandOptions, urls: Sequence[Word], hosts: Sequence[str]) -> None:
    """What leaves with a request: files, what is piped in, variables with keys."""
    uploads = options.option_values("T", "upload-file")
    bodies = [*options.option_values(*_DATA), *uploads, *options.option_values(*_HEADERS)]
    piped = uploads or any(word.text.endswith(("@-", "-")) for word in bodies)
    labels = call.stdin.labels if piped else NO_LABELS
    sent = [word for word in bodies if "@" in word.text or word in uploads]
    files = [Word(word.text.split(";")[0], word.dynamic, labels=word.labels) for word in sent]
    labels |= call.judge_reads(files) if files else NO_LABELS
    labels |= _labels((*urls, *bodies), options)
    call.add_effect(EffectKind.SENDS if uploads or options.option_values(*_DATA) else EffectKind.FETCHES, hosts)
    _leaked(call, labels, files, hosts)


_KEY_HEADER = re.compile(
    r"(proxy-)?(authorization|cookie)\s*:|[\w-]*(token|key|auth\w*|secret|signature)\s*:", re.IGNORECASE
)


def _labels(words: Iterable[Word], options: CommandOptions) -> frozenset[str]:
    """What is known of words that leave; a key in its own header is how one talks to the host whose key it is."""
    keys = [one for one in options.option_values("H", "header", "u", "user") if _KEY_HEADER.match(one.text)]
    return NO_LABELS.union(*(word.labels for word in words if word not in keys))


def _leaked(call: ProgramCall, labels: frozenset[str], files: Sequence[Word], hosts: Sequence[str]) -> None:
    paths = [call.resolve_path(Word(word.text.rpartition("@")[2])) for word in files]
    if Label.SECRET in labels and not all(_LOCAL.match(host) for host in hosts):
        call.ask("exfiltration", _KEYS_SENT, effect=EffectKind.SENDS, targets=hosts)
    elif any(is_root_like_path(path, call.host.places) for path in paths):
        call.ask("exfiltration", _FILES_SENT)


def _configured(call: ProgramCall, options: CommandOptions) -> None:
    for word in options.option_values("K", "config"):
        told = dataflow.file_content(call, word).text
        if told is None:
            call.ask("nested-program", "it reads options that are not visible here")
        elif any(is_private_file(path) for path in re.findall(r"@?([~\w./-]+)", told)):
            call.ask("exfiltration", _KEYS_SENT)
    for word in options.option_values("unix-socket"):
        if re.search(r"(docker|containerd|podman|crio)\S*\.sock", word.text) and _method(call, options) != "GET":
            call.ask("container", "it gives a container power over this machine, or ends one")


def _method(call: ProgramCall, options: CommandOptions) -> str:
    given = options.option_values("X", "request")
    if given:
        return given[-1].text.upper()
    if options.option_values("T", "upload-file"):
        return "PUT"
    return "POST" if options.option_values(*_DATA) and not options.has_option("G", "get") else "GET"


def _requests(call: ProgramCall, options: CommandOptions, urls: Sequence[Word], hosts: Sequence[str]) -> None:
    bodies = options.option_values(*_DATA)
    method = _method(call, options)
    local = bool(hosts) and all(_LOCAL.match(host) for host in hosts)
    if any(databases.request_loses(method, word.text, bodies, local=local) for word in urls):
        call.ask("remote-loss", "it deletes something elsewhere", effect=EffectKind.DESTROYS, targets=hosts)


def _saved(call: ProgramCall, options: CommandOptions, urls: Sequence[Word]) -> ShellStream | None:
    outputs = options.option_values("o", "output")
    if options.has_option("O", "remote-name", "remote-name-all"):
        outputs = [*outputs, *(Word(_last(word.text)) for word in urls)]
    for word in options.option_values("c", "cookie-jar", "D", "dump-header"):
        call.judge_write(call.resolve_path(word))
    if not outputs:
        return ShellStream(None, _FETCHED)
    for word in outputs:
        if word.text == "-":
            return ShellStream(None, _FETCHED)
        folders = options.option_values("output-dir")
        path = call.resolve_path(Word(f"{folders[0].text}/{word.text}") if folders else word)
        call.judge_write(path, kind=EffectKind.OVERWRITES)
        call.state.files[path] = ShellStream(None, _FETCHED)
    return UNKNOWN_STREAM


def wget(call: ProgramCall) -> ShellStream | None:
    """wget."""
    options = call.parse_options("OoaiTtUPeADRlwQ", _WGET_NAMED)
    urls = options.operands
    hosts = [_host(word.text) for word in urls]
    judge_hosts(call, hosts)
    labels = _labels((*options.option_values("post-data", "body-data", "header"), *urls), CommandOptions([]))
    posted = options.option_values("post-file", "body-file")
    labels |= call.judge_reads(posted) if posted else NO_LABELS
    if options.option_values("use-askpass") or any(
        _WGET_SET.search(word.text) for word in options.option_values("e", "execute")
    ):
        call.ask("nested-program", "it starts another program")
    call.add_effect(EffectKind.SENDS if posted else EffectKind.FETCHES, hosts)
    if Label.SECRET in labels:
        call.ask("exfiltration", _KEYS_SENT)
    return _downloaded(call, options, urls)


_WGET_SET = re.compile(r"use_askpass|post_file|output_document")


def _downloaded(call: ProgramCall, options: CommandOptions, urls: Sequence[Word]) -> ShellStream:
    outputs = options.option_values("O", "output-document", "o", "out") or [Word(_last(word.text)) for word in urls]
    folders = options.option_values("P", "directory-prefix", "d", "dir")
    for word in outputs:
        if word.text in ("-", "/dev/stdout"):
            return ShellStream(None, _FETCHED)
        path = call.resolve_path(Word(f"{folders[0].text}/{word.text}") if folders else word)
        call.judge_write(path, kind=EffectKind.OVERWRITES)
        call.state.files[path] = ShellStream(None, _FETCHED)
    return ShellStream("")


def _last(address: str) -> str:
    return address.partition("?")[0].rstrip("/").rpartition("/")[2] or "index.html"


def raw(call: ProgramCall) -> ShellStream | None:
    """nc, ncat, telnet: connections that carry anything."""
    options = call.parse_options("pswqieIcXxTOPVmgGkW", "exec sh-exec source proxy lua-exec")
    if options.has_option("exec", "sh-exec", "lua-exec") or (
        any(options.option_values("e", "c")) and call.name != "telnet"
    ):
        call.ask("remote-shell", "it gives a shell to the other side")
    return _connected(call, [word.text for word in options.operands[:1]], scans=options.has_option("z"))


def socat(call: ProgramCall) -> ShellStream | None:
    """socat: two ends, one of which may be a program."""
    text = " ".join(call.args)
    if re.search(r"\b(EXEC|SYSTEM|SHELL):", text, re.IGNORECASE):
        call.ask("remote-shell", "it gives a shell to the other side")
    return _connected(call, [word.text for word in call.words[:1] if not word.text.startswith("-")], scans=False)


def _connected(call: ProgramCall, hosts: Sequence[str], *, scans: bool) -> ShellStream:
    judge_hosts(call, hosts)
    if call.fed and not scans:
        _carried(call, hosts)
    call.add_effect(EffectKind.SENDS if call.fed else EffectKind.FETCHES, hosts)
    return ShellStream(None, _FETCHED)


def _carried(call: ProgramCall, hosts: Sequence[str]) -> None:
    known = call.stdin.text
    if Label.SECRET in call.stdin.labels:
        call.ask("exfiltration", _KEYS_SENT)
    elif known is None:
        if not all(_LOCAL.match(host) for host in hosts) or not hosts:
            call.ask("raw-connection", "it sends what it is given over a raw connection")
    elif _EMPTIES.search(known) or databases.statements_lose(known):
        call.ask("sql", "it deletes tables or rows without a condition")


_EMPTIES = re.compile(r"\bflush(all|db|_all)\b|\bshutdown\b|config set|slaveof", re.IGNORECASE)
_KEYED = re.compile(r"-(k|K|pass|in)$|-aes")
_VAST = re.compile(r"\d{11,}")
"""A number of bytes for which there is no room."""


def openssl(call: ProgramCall) -> ShellStream | None:
    """openssl: `s_client` is a connection, `enc -d` decodes."""
    verb = call.args[0] if call.args else ""
    if verb == "s_client":
        return _secured(call)
    decodes = not {"-d", "-decrypt"}.isdisjoint(call.args)
    keyed = any(map(_KEYED.match, call.args))
    in_letters = verb == "base64" or not {"-a", "-base64", "-A"}.isdisjoint(call.args)
    if decodes and call.stdin.text is not None and in_letters and not keyed:
        return text.decoded(call.stdin.text, "base64", call.stdin.labels)
    made = frozenset({Label.DECODED}) if decodes else NO_LABELS
    if verb == "rand" and any(map(_VAST.fullmatch, call.args[1:])):
        call.ask("fills", "it fills the disk")
    return ShellStream(None, call.stdin.labels | made)


def _secured(call: ProgramCall) -> ShellStream:
    call.add_effect(EffectKind.SENDS, [word for word in call.args if ":" in word][:1])
    if call.fed and call.stdin.text is None:
        call.ask("raw-connection", "it sends what it is given over a raw connection")
    elif "-quiet" in call.args:
        call.ask("raw-connection", "it opens a raw connection")
    return ShellStream(None, _FETCHED)


def mailed(call: ProgramCall) -> ShellStream | None:
    """mail, sendmail, ftp, lftp, telnet-like senders, pastebins."""
    labels = call.judge_reads(call.words) | call.stdin.labels
    call.add_effect(EffectKind.SENDS, call.args[-1:])
    if Label.SECRET in labels:
        call.ask("exfiltration", _KEYS_SENT)
    elif call.name == "lftp" and any(option in call.args for option in ("-e", "-c", "-f")):
        call.ask("raw-connection", "it runs a transfer script")
    elif call.name in _PASTES and (call.fed or call.args):
        call.ask("publishes", "it publishes what it is given")
    return None


_PASTES = word_set("pastebinit gist termbin transfer wormhole croc ffsend ix sprunge 0x0 magic-wormhole")


def aria(call: ProgramCall) -> ShellStream | None:
    """aria2c, axel: downloads into a file."""
    options = call.parse_options("odxsj", "out dir on-download-complete on-download-start on-download-error")
    call.add_effect(EffectKind.FETCHES, [_host(word.text) for word in options.operands])
    return _downloaded(call, options, options.operands)


RULES: dict[str, Rule] = {
    "curl": curl,
    "wget": wget,
    "wget2": wget,
    "nc ncat netcat telnet nc.traditional nc.openbsd": raw,
    "socat": socat,
    "openssl": openssl,
    **dict.fromkeys(("mail", "mailx", "mutt", "sendmail", "swaks", "ftp", "lftp", "tftp", "sftp", *_PASTES), mailed),
    "aria2c axel": aria,
}
