"""Programs that fetch and send."""

import re
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from hermes.safety.call import Call, Options, private, root_like, under
from hermes.safety.findings import EffectKind
from hermes.safety.rules.remote import sql_texts
from hermes.safety.words import DECODED, FETCHED, NONE, SECRET, UNTOLD, Stream, Word
from hermes.safety.words import words as word_set

Rule = Callable[[Call], Stream | None]
_FETCHED = frozenset({FETCHED})
_LOCAL = re.compile(r"^(localhost|127\.[\d.]+|\[?::1\]?|0\.0\.0\.0|host\.docker\.internal)$")
_CURL_NAMED = word_set(
    """
    request header data data-raw data-binary data-urlencode data-ascii form form-string upload-file output user
    user-agent
    referer cookie cookie-jar proxy url max-time connect-timeout retry cert key cacert config netrc-file json range
    resolve
    interface write-out dump-header output-dir unix-socket oauth2-bearer aws-sigv4 variable limit-rate doh-url
    connect-to
    """
)
_WGET_NAMED = word_set(
    """
    output-document output-file append-output input-file tries timeout user-agent header post-data post-file user
    password
    method body-data body-file directory-prefix execute accept reject level load-cookies save-cookies use-askpass wait
    """
)


def _host(text: str) -> str:
    try:
        return urlsplit(text if "://" in text else f"//{text}").hostname or text
    except ValueError:
        return text


def curl(call: Call) -> Stream | None:
    """curl: where it goes, what it takes along, what it writes."""
    options = call.options("XHdFToAuebcxmKErYyzCDQPtUw", _CURL_NAMED)
    urls = [*options.operands, *options.all("url")]
    hosts = [_host(word.text) for word in urls]
    for word in urls:
        if word.text.lower().startswith("file:"):
            call.reads([Word(re.sub(r"(?i)^file:(//)?", "", word.text))])
        elif re.match(r"(?i)(gopher|dict|smb|ldap|tftp):", word.text):
            call.ask("raw-connection", "it speaks a raw protocol")
    bodies = [
        *options.all(
            "d", "data", "data-binary", "data-urlencode", "data-ascii", "json", "F", "form", "data-raw", "form-string"
        ),
        *options.all("T", "upload-file"),
        *options.all("H", "header", "u", "user", "b", "cookie", "A", "e", "K", "config", "E", "cert"),
    ]
    uploads = options.all("T", "upload-file")
    sends = bool(options.all("d", "data", "data-binary", "data-urlencode", "F", "form", "json", "data-raw") or uploads)
    labels = call.stdin.labels if any(word.text.endswith(("@-", "-")) for word in bodies) or uploads else NONE
    files = [
        Word(word.text.split(";")[0], word.dynamic, labels=word.labels)
        for word in bodies
        if "@" in word.text or word in uploads
    ]
    labels |= call.reads(files) if files else NONE
    for word in [*urls, *bodies]:
        labels |= word.labels if not _credential(word, options) else NONE
    call.effect(EffectKind.SENDS if sends else EffectKind.FETCHES, hosts)
    if SECRET in labels and not all(_LOCAL.match(host) for host in hosts):
        call.effect(EffectKind.SENDS, hosts)
        call.ask("exfiltration", "it sends keys or the environment away")
    elif files and any(root_like(call.path(word), call.host.places) or _from_home(call, word) for word in files):
        call.ask("exfiltration", "it sends files from outside the session's folder away")
    for word in options.all("K", "config"):
        from hermes.safety import flow

        told = flow.looked_up(call, word).text
        if told is not None and any(private(path) for path in re.findall(r"@?([~\w./-]+)", told)):
            call.ask("exfiltration", "it sends keys or the environment away")
    for word in options.all("d", "data", "data-raw", "data-binary"):
        if (
            re.search(r"\b(drop|truncate)\s+table\b|delete\s+from", word.text, re.IGNORECASE)
            and sql_texts(word.text)
            and "G" not in options.letters
        ):
            call.ask("sql", "it deletes tables or rows without a condition")
    if any("DELETE" in word.text.upper() for word in options.all("X", "request")) and not all(
        _LOCAL.match(host) for host in hosts
    ):
        call.effect(EffectKind.DESTROYS, hosts)
        call.ask("remote-loss", "it deletes something elsewhere")
    return _saved(call, options, urls)


def _credential(word: Word, options: Options) -> bool:
    """A key in a header is how one talks to the host whose key it is: it is no leak of a file."""
    return (
        word in options.all("H", "header", "u", "user")
        and word.text.count("$") <= 1
        and re.search(r"authorization|bearer|token|api-?key|^\w*:?\$\{", word.text, re.IGNORECASE) is not None
    )


def _from_home(call: Call, word: Word) -> bool:
    path = call.path(Word(word.text.rpartition("@")[2]))
    places = call.host.places
    return under(path, places.home) and not under(path, places.workspace) and "/." in path


def _saved(call: Call, options: Options, urls: Sequence[Word]) -> Stream | None:
    outputs = options.all("o", "output")
    if options.has("O", "remote-name", "remote-name-all"):
        outputs = [
            *outputs,
            *(Word(word.text.split("?")[0].rstrip("/").rpartition("/")[2] or "index.html") for word in urls),
        ]
    for word in options.all("c", "cookie-jar", "D", "dump-header"):
        call.writes(call.path(word))
    if not outputs:
        return Stream(None, _FETCHED)
    for word in outputs:
        if word.text == "-":
            return Stream(None, _FETCHED)
        path = call.path(word)
        call.writes(path, kind=EffectKind.OVERWRITES)
        call.state.files[path] = Stream(None, _FETCHED)
    return UNTOLD


def wget(call: Call) -> Stream | None:
    """wget."""
    options = call.options("OoaiTtUPeADRlwQ", _WGET_NAMED)
    urls = options.operands
    hosts = [_host(word.text) for word in urls]
    labels = NONE
    for word in options.all("post-data", "body-data", "header"):
        labels |= word.labels
    posted = options.all("post-file", "body-file")
    labels |= call.reads(posted) if posted else NONE
    for word in urls:
        labels |= word.labels
    for word in options.all("e", "execute"):
        if re.search(r"use_askpass|post_file|output_document", word.text):
            call.ask("nested-program", "it is told to start another program")
    if options.all("use-askpass"):
        call.ask("nested-program", "it is told to start another program")
    call.effect(EffectKind.SENDS if posted else EffectKind.FETCHES, hosts)
    if SECRET in labels:
        call.ask("exfiltration", "it sends keys or the environment away")
    elif any(_from_home(call, word) for word in posted):
        call.ask("exfiltration", "it sends files from outside the session's folder away")
    outputs = options.all("O", "output-document") or [
        Word(word.text.split("?")[0].rstrip("/").rpartition("/")[2] or "index.html") for word in urls
    ]
    folders = options.all("P", "directory-prefix")
    for word in outputs:
        if word.text in ("-", "/dev/stdout"):
            return Stream(None, _FETCHED)
        path = call.path(Word(f"{folders[0].text}/{word.text}") if folders else word)
        call.writes(path, kind=EffectKind.OVERWRITES)
        call.state.files[path] = Stream(None, _FETCHED)
    return Stream("")


def raw(call: Call) -> Stream | None:
    """nc, ncat, socat, telnet, openssl s_client: connections that carry anything."""
    text = " ".join(call.args)
    if call.name == "openssl":
        return openssl(call)
    options = call.options(
        "pswqieIcXxTOPVmgGkW" if call.name != "socat" else "", word_set("exec sh-exec source proxy lua-exec")
    )
    if call.name == "socat":
        if re.search(r"\b(EXEC|SYSTEM|SHELL):", text, re.IGNORECASE):
            call.ask("remote-shell", "it gives a shell to the other side")
        elif re.search(r"(-LISTEN|TCP|UDP|OPENSSL)", text, re.IGNORECASE) and (call.fed or "OPEN:" in text.upper()):
            call.ask("raw-connection", "it opens a raw connection")
    elif options.has("exec", "sh-exec", "lua-exec") or (any(options.all("e", "c")) and call.name != "telnet"):
        call.ask("remote-shell", "it gives a shell to the other side")
    hosts = [word.text for word in options.operands[:1]]
    if call.fed and not options.has("z"):
        _carried(call, hosts)
    labels = frozenset({SECRET}) & frozenset(label for word in call.words for label in word.labels)
    if labels:
        call.ask("exfiltration", "it sends keys or the environment away")
    call.effect(EffectKind.SENDS if call.fed else EffectKind.FETCHES, hosts)
    return Stream(None, _FETCHED)


def _carried(call: Call, hosts: Sequence[str]) -> None:
    known = call.stdin.text
    if SECRET in call.stdin.labels:
        call.ask("exfiltration", "it sends keys or the environment away")
    elif known is None:
        if not all(_LOCAL.match(host) for host in hosts) or not hosts:
            call.ask("raw-connection", "it sends what it is given over a raw connection")
    elif re.search(r"\bflush(all|db)\b|\bshutdown\b|config set|slaveof", known, re.IGNORECASE) or sql_texts(known):
        call.ask("sql", "it deletes tables or rows without a condition")


def openssl(call: Call) -> Stream | None:
    """openssl: `s_client` is a connection, `enc -d` decodes."""
    verb = call.args[0] if call.args else ""
    if verb == "s_client":
        call.effect(EffectKind.SENDS, [text for text in call.args if ":" in text][:1])
        if call.fed and call.stdin.text is None:
            call.ask("raw-connection", "it sends what it is given over a raw connection")
        elif "-quiet" in call.args:
            call.ask("raw-connection", "it opens a raw connection")
        return Stream(None, _FETCHED)
    if verb == "s_server":
        call.ask("raw-connection", "it waits for connections")
    decodes = "-d" in call.args or "-decrypt" in call.args
    if (decodes and any(text in ("-a", "-base64", "-A") for text in call.args)) or (verb == "base64" and decodes):
        from hermes.safety.rules.text import decoded

        if call.stdin.text is not None and not any(
            text in ("-k", "-K", "-pass", "-in") or text.startswith("-aes") for text in call.args
        ):
            return decoded(call.stdin.text, "base64", call.stdin.labels)
    outputs = [call.words[at + 1] for at, text in enumerate(call.args[:-1]) if text == "-out"]
    for word in outputs:
        call.writes(call.path(word))
        call.state.files[call.path(word)] = Stream(None, frozenset({DECODED}) if decodes else NONE)
    return Stream(None, call.stdin.labels | (frozenset({DECODED}) if decodes else NONE))


def mailed(call: Call) -> Stream | None:
    """mail, sendmail, ftp, lftp, telnet-like senders, pastebins."""
    labels = call.reads(call.words) | call.stdin.labels
    call.effect(EffectKind.SENDS, call.args[-1:])
    if SECRET in labels:
        call.ask("exfiltration", "it sends keys or the environment away")
    elif call.name == "lftp" and any(option in call.args for option in ("-e", "-c", "-f")):
        call.ask("raw-connection", "it runs a transfer script")
    elif call.name in _PASTES and (call.fed or call.args):
        call.ask("publishes", "it publishes what it is given")
    return None


_PASTES = word_set("pastebinit gist termbin transfer wormhole croc ffsend ix sprunge 0x0 magic-wormhole")


def httpie(call: Call) -> Stream | None:
    """http, https, xh: `field=@file` sends files."""
    operands = [
        word for word in call.options("aoSp", word_set("auth output session")).operands if word.text.isupper() is False
    ]
    labels = call.reads([word for word in call.words if "@" in word.text]) | call.stdin.labels
    for word in call.words:
        labels |= word.labels
    call.effect(
        EffectKind.SENDS if len(operands) > 1 or call.fed else EffectKind.FETCHES,
        [_host(word.text) for word in operands[:1]],
    )
    if SECRET in labels:
        call.ask("exfiltration", "it sends keys or the environment away")
    if "DELETE" in call.args[:2] and operands and not _LOCAL.match(_host(operands[0].text).partition(":")[0]):
        call.ask("remote-loss", "it deletes something elsewhere")
    for word in call.options("aoSp", word_set("output")).all("o", "output"):
        call.writes(call.path(word))
        call.state.files[call.path(word)] = Stream(None, _FETCHED)
    return Stream(None, _FETCHED)


def aria(call: Call) -> Stream | None:
    """aria2c, axel: downloads into a file."""
    options = call.options("odxsj", word_set("out dir on-download-complete on-download-start on-download-error"))
    for word in options.all("on-download-complete", "on-download-start", "on-download-error"):
        call.ask("nested-program", f"it is told to start another program: {word.text}")
    call.effect(EffectKind.FETCHES, [_host(word.text) for word in options.operands])
    folders = options.all("d", "dir")
    names = options.all("o", "out") or [Word(word.text.rstrip("/").rpartition("/")[2]) for word in options.operands]
    for word in names:
        path = call.path(Word(f"{folders[0].text}/{word.text}") if folders else word)
        call.writes(path)
        call.state.files[path] = Stream(None, _FETCHED)
    return Stream("")


def viewed(call: Call) -> Stream | None:
    """lynx, w3m, links, elinks: pages as text."""
    call.effect(EffectKind.FETCHES, [_host(word.text) for word in call.options().operands[:1]])
    for word in call.words:
        if SECRET in word.labels:
            call.ask("exfiltration", "it sends keys or the environment away")
    return Stream(None, _FETCHED)


def asked_name(call: Call) -> Stream | None:
    """dig, host, nslookup, ping: names are sent; a name made out of keys is a leak."""
    call.effect(EffectKind.FETCHES, ("dns",))
    if any(SECRET in word.labels for word in call.words):
        call.ask("exfiltration", "it sends keys away inside a name")
    return Stream(None, _FETCHED if call.name in ("dig", "nslookup", "host") else NONE)


def tunnelled(call: Call) -> Stream | None:
    """ngrok, cloudflared, localtunnel, chisel: the machine opened to others."""
    if call.args and call.args[0] not in ("version", "--version", "help", "--help", "login"):
        call.effect(EffectKind.SENDS, ("tunnel",))
        call.ask("raw-connection", "it opens this machine to others")
    return None


RULES: dict[str, Rule] = {
    "curl": curl,
    "wget": wget,
    "wget2": wget,
    **dict.fromkeys(("nc", "ncat", "netcat", "socat", "telnet", "openssl", "nc.traditional", "nc.openbsd"), raw),
    **dict.fromkeys(("mail", "mailx", "mutt", "sendmail", "swaks", "ftp", "lftp", "tftp", "sftp", *_PASTES), mailed),
    **dict.fromkeys(("http", "https", "xh", "httpie"), httpie),
    **dict.fromkeys(("aria2c", "axel"), aria),
    **dict.fromkeys(("lynx", "w3m", "links", "elinks", "fetch"), viewed),
    **dict.fromkeys(("dig", "nslookup", "host", "ping", "drill"), asked_name),
    **dict.fromkeys(("ngrok", "cloudflared", "localtunnel", "lt", "chisel", "bore", "frpc", "tailscale"), tunnelled),
}
