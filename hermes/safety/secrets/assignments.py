"""Finds secrets by their names: `password = "..."`, headers, options, cookies.

A name alone is not enough: the value must look like a secret too.

Judges whether a name is a secret's, and whether a value may be a password that was chosen or generated.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from hermes.safety.secrets.placeholders import (
    is_common_password,
    is_identifier,
    is_placeholder,
    is_random_like,
    is_uuid,
)
from hermes.util.text import compile_late, find_each

_SAFE_REST = (
    r"^(?:s?_?(?:count|length|len|hash|hashed|digest|id|ids|type|name|names|file|filename|path|dir|limit|size|expir\w*|"
    r"ttl|policy|field|fields|header|prefix|suffix|version|url|uri|endpoint|min\w*|max\w*|reset|required|strength|"
    r"rounds|index|status|format|usage|used|budget|hint|label|algorithm|alg|store|provider|class|column|pattern|regex|"
    r"error|errors|age|code|event|board|pair|map|list|set|ring|space|stone|frame|note|word|words|wordlist|port|mode|"
    r"schema|arn|ref|refs|reference|var|env|source|prompt|validator|rules|scope|scopes|created|updated|at|by|on|off|"
    r"thumbprint|fingerprint|checksum|present|enabled|disabled|lifetime|duration|rate|rotation|count_\w+))$"
    r"|^(?:izer|ize|board|word|frame|stone|note|pad|noise|ring|enger|age|ion|ive|port|ed|ing|es\b|or|ors|ored|entic|"
    r"ority|ur|ry|ret|its|ible)"
)
"""The rest of a name that makes it harmless. It is compiled when a name has a rest: most texts hold none."""


_SAFE_WORDS = """
    max min num n total primary foreign cache sort partition public publishable idempotency translation row hash range
    object s3 storage_object next page continuation sync cancel stop eos bos pad unk prompt completion input output
    cached reset show hide toggle forgot no i18n locale map dict index group composite unique natural surrogate join
    lookup ssh_public host device registry query state route react hot mon tur whis don joc jockey by com tres over
    under sur en tim bi mis
    """


_SAFE_LEFT = frozenset(_SAFE_WORDS.split())
"""Words before the anchor that make the name harmless."""


_KEY_WORDS = """
    api access secret private priv auth encryption encrypt crypt signing sign master service account app license client
    consumer shared session admin webhook jwt deploy subscription function functions security root server user bot
    project team org integration write read rest hmac aes rsa ssl tls ssh salt cookie data db field fernet stripe openai
    azure aws application ingest x
    """


_KEY_LEFT = tuple(_KEY_WORDS.split())
"""Words before `key` that make it an access key."""


_SIGN_BETWEEN = re.compile(r"[_.$-]")


_UPPER_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_$")


_STRONG_WEIGHT, _WEAK_WEIGHT = 2, 1


_PASSWORDS = frozenset({"pass", "pwd", "_pw"})


_ENDINGS = frozenset({"", "s", "S", "ential", "entials"})


_PASSWORD_WORD = re.compile("^pass(?:word|wd|phrase|code)", re.IGNORECASE)


_WORD_WITH_NUMBER = re.compile(r"v?\d+\w?|[a-z]+\d{1,2}")


_BRACKETS = frozenset("(){}[]")


_DIGIT = re.compile(r"\d")


_LETTER = re.compile(r"[^\W\d_]")


_SIGN = re.compile(r"[^\w./:-]")


_PARTS = re.compile(r"[-_./:@]+")


@lru_cache(maxsize=512)
def name_weight(word: str, left: str, rest: str) -> int:
    """Return how surely a name is a secret's: 2 surely, 1 perhaps, 0 not. `word` is its anchor, `left` and
    `rest` are the text around it.
    """
    anchor = word.lower()
    rest = _PASSWORD_WORD.sub("pass", anchor + rest)[len(anchor) :]  # `_hash` in `password_hash`
    if _has_safe_word(left) or (rest not in _ENDINGS and re.match(_SAFE_REST, rest, re.IGNORECASE)):
        return 0
    if anchor != "token" and rest not in _ENDINGS and rest[:1].islower():
        return 0  # small letters after it make another word of it
    if anchor == "key":
        return _STRONG_WEIGHT if _is_access_key(word, left) else 0
    weak = anchor == "token" and rest and left[-1:] in ("", ".")
    return _WEAK_WEIGHT if weak else _STRONG_WEIGHT


def _is_access_key(word: str, left: str) -> bool:
    """Return whether a key gives access: `api_key`, `SERVICE_KEY`, not `sort_key`."""
    if word.isupper() and left[-1:] == "_" and _UPPER_NAME.search(left):
        return True
    return _word_before(left).endswith(_KEY_LEFT)


def _word_before(left: str) -> str:
    """Return the part of a name before its anchor, without the sign between them."""
    return (left[:-1] if left[-1:] in ("_", ".", "-") else left).lower()


def _has_safe_word(left: str) -> bool:
    """Return whether the word before the anchor makes the name harmless."""
    word = _word_before(left)
    if not word:
        return False
    *others, last = _SIGN_BETWEEN.split(word[-40:])
    return last in _SAFE_LEFT or (bool(others) and f"{others[-1]}_{last}" in _SAFE_LEFT)


def is_secret_like(value: str, weight: int, anchor: str, *, quoted: bool) -> bool:
    """Return whether a value that such a name is given looks like a secret."""
    if is_placeholder(value) or is_common_password(value) or len(value) < 6:
        return False
    if anchor in _PASSWORDS:
        return _is_chosen_secret(value, quoted=quoted)
    if is_uuid(value):
        return weight == _STRONG_WEIGHT and anchor != "token"
    if value.isdigit() or (" " in value.strip() and not is_random_like(value)):
        return False
    return _is_chosen_secret(value, quoted=quoted) and (len(value) >= 8 or quoted)


def is_possible_password(value: str) -> bool:
    """Return whether a value in the place of a password can be one."""
    return not is_placeholder(value) and not is_common_password(value) and _is_chosen_secret(value, quoted=True)


def is_random_secret(value: str) -> bool:
    """Return whether it looks random and is no placeholder."""
    return not is_placeholder(value) and is_random_like(value, 8)


def _is_chosen_secret(value: str, *, quoted: bool) -> bool:
    """Return whether a person or a program may have chosen this for a secret: no word, number, name or expression."""
    if is_random_like(value, 8):
        return quoted or "(" not in value
    if not quoted and (_BRACKETS.intersection(value) or is_identifier(value)):
        return value.isalnum() and not value.islower() and _has_digit(value) and len(value) >= 8
    return not value.isdigit() and " " not in value.strip() and _is_unusual(value)


def _is_unusual(value: str) -> bool:
    """Return whether letters stand beside digits or signs in it, other than as numbered words do."""
    if value.isalpha() or not _LETTER.search(value):
        return False
    if _has_digit(value):
        return len(value) >= 6 and not _is_numbered_words(value)
    return len(value) >= 8 and _SIGN.search(value) is not None and not value.rstrip("?!.").isalpha()


def _has_digit(value: str) -> bool:
    return _DIGIT.search(value) is not None


def _is_numbered_words(value: str) -> bool:
    """Return whether it is words with numbers between dots, dashes and slashes, as in paths, versions, dates and cache
    keys.
    """
    parts = [part for part in _PARTS.split(value) if part]
    return len(parts) > 1 and all(
        part.isdigit() or part.isalpha() or _WORD_WITH_NUMBER.fullmatch(part) for part in parts
    )


Span = tuple[int, int, str]

_ANCHORS = (b"pass", b"pwd", b"_pw", b"secret", b"token", b"key", b"auth", b"cred", b"bearer")
_MAX_LEFT = 48
_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.$"
_VALUE_AFTER_NAME = compile_late(
    r"(?P<rest>[\w-]{0,40}+)[\"'`\])}]{0,3}(?:"
    r"\s{0,3}(?P<sign>=>|:=|\?=|\|\|=|==?|:|<-)\s{0,3}(?:[|>][-+]?\s{1,24})?|,?\s{1,24}[\"']?value[\"']?:\s?"
    r"|(?P<element>>)"
    r"|(?P<attribute>[\"']?\s{1,3}(?:value|content)\s?=\s?)(?=[\"'])"
    r"|(?P<call>\()(?=[\"'`])"
    r"|(?P<comma>,\s{0,3})(?=[\"'`])"
    r"|(?P<blank>[ \t]{0,24}\|[ \t]{1,4}|[ \t]{1,4})(?:(?P<says>is|was|of)[ \t]{1,3})?)"
    r"(?P<tag>!\w{1,12}[ \t]|[bBrRfFuU](?=[\"']))?"
    r"(?:\"(?P<double>[^\"\n]{4,500})\"|'(?P<single>[^'\n]{4,500})'|`(?P<tick>[^`\n]{4,500})`"
    r"|(?P<bare>[^\s\"'`,;<>(){}\[\]][^\s\"'`,;<>]{3,255}))"
)
_SCHEME = compile_late(
    r"(?:Basic|Bearer|Token|Digest|ApiKey|Api-Key|Key|Negotiate|SSWS|Splunk|GenieKey|AWS4-HMAC-SHA256|"
    r"[A-Za-z-]{2,24})[ \t]+(?:token=)?[\"']?([^\s\"'<>,;]{6,4000})"
)
_BEARER = compile_late(r"(?:er|earer)?[ \t]+([A-Za-z0-9._~+/=-]{12,4000})")
_COOKIE = compile_late(r"(?:\d?[\"']?\s?[:=]\s?[\"']?)")
_COOKIE_PAIR = compile_late(r"(?<![\w.$-])([\w.$-]{1,200}+)=([^\s;\"',]{1,4000})")
_COOKIE_NAME = compile_late(
    r"sess|(?:^|[._-])sids?(?:$|[._-])|sid$|token|auth|jwt|remember|csrf|xsrf|secret|passw|login|identity|credential|"
    r"ticket|key|\.aspx|sso|access|refresh|id$",
    re.IGNORECASE,
)
_PIPED_PASSWORD = compile_late(
    r"(?:echo|printf)\s+(?:-\w+\s+)?(?:['\"]([^'\"\n]{4,200})['\"]|([^\s'\"|]{4,200}))\s*\|\s*(?:\S+\s+)?(?:sudo|docker|su|passwd|kinit|gpg|openssl|cryptsetup|podman|helm|az|oc|gh|op)\b"
)
_PASSWORD_OPTIONS = {
    b"sshpass": r"sshpass\s+-p\s{0,3}",
    b"mysql": r"mysql[a-z]{0,8}\b[^\n|;]{0,80}?\s-p",
    b"redis-cli": r"redis-cli\b[^\n|;]{0,80}?\s-a\s+",
    b"curl": r"curl\b[^\n|;]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{0,60}:",
    b"wget": r"wget\b[^\n|;]{0,200}?\s--user[ =]?[\"']?[^\s:\"']{0,60}:",
    b"identified": r"identified\s+(?:with\s+\w+\s+)?by\s+",
    b"ldap": r"ldap\w+\b[^\n|;]{0,80}?\s-w\s+",
    b"htpasswd": r"htpasswd\s+-\w{0,6}b\w{0,6}\s+\S{1,80}\s+\S{1,40}\s+",
    b" login": r" login\b[^\n|;]{0,80}?\s-p\s+",
    b"smbclient": r"smbclient\b[^\n|;]{0,80}?\s-U\s+[^\s%]{1,40}%",
    b"pass:": r"pass:",
    b"chpasswd": r"chpasswd\s{0,2}<<<\s{0,2}[\"']?[^\s:]{1,40}:",
    b"zip -p": r"zip\s+-P\s+",
    b"net user": r"net\s+user\s+\S{1,40}\s+",
    b"mongo": r"mongo\w{0,8}\b[^\n|;]{0,80}?\s-p\s+",
    b"sqlcmd": r"sqlcmd\b[^\n|;]{0,80}?\s-P\s+",
    b"requirepass": r"requirepass\s+",
    b"masterauth": r"masterauth\s+",
}
"""What comes before a password, by a word of it; compiled when the word is seen, since most texts have none."""
_REST = re.compile(r"[^\s\"'`,;<>&]{0,8000}")
_LONG_VALUE = 240
_WORDS = (b"_pat", b"-pat", b"bindpw", b"jwt", b"session", b"cookie", b"mnemonic", b"webhook")
_VALUE_AFTER_WORD = compile_late(
    r"(?:_(?:[vV]?\d{1,3}|[uU][rR][lL]|(?!ID)[A-Za-z0-9]{1,12}))?[\"']?\s{0,3}[=:]\s{0,3}[\"']?"
)
_WORD_VALUE = compile_late(r"[^\s\"'`,;<>(){}\[\]]{8,4000}(?![(\[{])")
_MNEMONIC = compile_late(r"[a-z]{3,8}(?:[ _-][a-z]{3,8}){11,23}(?![a-z])")
_WEBHOOK_ADDRESS = compile_late(r"https?://[^\s/\"'<>]{1,200}/([^\s\"'<>]{8,400})")
_MIN_SESSION_VALUE = 8
"""Characters of the shortest value that carries a session."""
_MAX_REPEATS = 4
"""The number of occurrences of a name within its own value from which on it is no assignment."""
_KINDS = {"pass": "password", "pwd": "password", "_pw": "password", "token": "token", "key": "key"}
_AUTHORIZATION = compile_late(r"(?:[\w-]*orization(?:-header)?|[\w-]*_header|enticate)?")


def find_assignments(text: str, data: bytes) -> list[Span]:
    """Return (start, end, kind) of every value whose name and look say that it is a secret; `data` is
    `to_single_bytes(text)`.
    """
    lower = data.lower()
    found = [span for anchor in _ANCHORS if anchor in lower for span in _find_around_anchor(text, lower, anchor)]
    for word in filter(lower.__contains__, _WORDS):
        found += _find_after_words(text, lower, word)
    if b"cookie" in lower:
        found += _find_cookies(text, lower)
    if b"|" in lower and (b"sudo" in lower or b"stdin" in lower):
        found += _find_piped_passwords(text)
    if any(sign in lower for sign in (b" -", b"identified", b"pass")):
        for word in filter(lower.__contains__, _PASSWORD_OPTIONS):
            found += _find_option_passwords(text, lower, word)
    return found


def _find_piped_passwords(text: str) -> Iterator[Span]:
    """Yield passwords that are piped to a program that asks for one."""
    for match in _PIPED_PASSWORD.finditer(text):
        yield from _password_span(match, 1 if match[1] else 2)


def _find_after_words(text: str, lower: bytes, word: bytes) -> Iterator[Span]:
    """Yield the values of names with a word in them that is a usual one elsewhere, too, where they look random."""
    for at in find_each(lower, word):
        end = at + len(word)
        match = _VALUE_AFTER_WORD.match(text, end)
        if match and (word[:1] in b"_-" or not text[at - 1 : at].isalpha() or word == b"bindpw"):
            yield from _judge_word_value(text, word, text[at:end].isupper(), match)


def _judge_word_value(text: str, word: bytes, is_upper: bool, match: re.Match[str]) -> Iterator[Span]:
    start = match.end()
    phrase = _MNEMONIC.match(text, start) if word == b"mnemonic" else None
    address = _WEBHOOK_ADDRESS.match(text, start) if word == b"webhook" else None
    value = phrase or _WORD_VALUE.match(text, start)
    # A session's id stands under that word everywhere; its key stands in variables.
    if value is None or (word == b"session" and not is_upper):
        return
    begin, end = address.span(1) if address else value.span()
    if word == b"bindpw":
        is_secret = is_secret_like(text[begin:end], _STRONG_WEIGHT, "pwd", quoted=text[begin - 1] in "'\"")
    else:
        is_secret = phrase is not None or is_random_secret(text[begin:end])
    if is_secret:
        yield begin, end, "secret"


def _find_around_anchor(text: str, lower: bytes, anchor: bytes) -> Iterator[Span]:
    """Yield the values of names with this anchor in them."""
    judged = _ANCHOR_JUDGES.get(anchor, _judge_value)
    done = 0
    for at in find_each(lower, anchor):
        if at < done:
            continue
        end = at + len(anchor)
        match = _VALUE_AFTER_NAME.match(text, end)
        repeated = match is not None and lower.count(anchor, *match.span("bare")) >= _MAX_REPEATS
        span = None if repeated else judged(text, match, at, end)
        if span:
            yield span
            done = span[1]
        elif match and repeated:
            done = match.end()


def _find_option_passwords(text: str, lower: bytes, word: bytes) -> Iterator[Span]:
    """Yield passwords among the options of a program."""
    pattern = re.compile(rf"{_PASSWORD_OPTIONS[word]}[\"']?([^\s\"'|;]{{4,200}})", re.IGNORECASE)
    done = 0
    for at in find_each(lower, word):
        match = pattern.match(text, at) if at >= done else None
        done = match.end() if match else done
        if match and word not in lower[match.start(1) : match.end(1)]:
            yield from _password_span(match, 1)


def _password_span(match: re.Match[str], group: int) -> Iterator[Span]:
    """Yield the group's span if its text may be a password."""
    if is_possible_password(match[group]):
        yield *match.span(group), "password"


def _judge_value(text: str, match: re.Match[str] | None, at: int, end: int) -> Span | None:
    """Return the span of the value that is given to a name, if there is one."""
    bare = (match["bare"] or "-") if match else ""
    if match is None or (bare.isalpha() and not is_random_like(bare)):
        return None
    left, word = _name_before(text, at), text[at:end]
    weight = name_weight(word, _words_before(text, at, word), match["rest"])
    start, stop, quoted = _locate_value(text, match) if weight else (0, 0, False)
    value = text[start:stop]
    if not value or not _is_assigning_operator(match, left, text, at, value):
        return None
    if not is_secret_like(value, weight, word.lower(), quoted=quoted):
        return None
    rest = _REST.match(text, stop) if len(value) >= _LONG_VALUE else None
    return start, rest.end() if rest else stop, _KINDS.get(word.lower(), "secret")


def _judge_bearer(text: str, match: re.Match[str] | None, at: int, end: int) -> Span | None:
    """Judge a token after `Bearer`."""
    del match, at
    token = _BEARER.match(text, end)
    return (*token.span(1), "bearer") if token and is_random_secret(token[1]) else None


def _judge_authorization(text: str, match: re.Match[str] | None, at: int, end: int) -> Span | None:
    """Judge `Authorization: Scheme value`, `x-auth: value`, `_auth=value`."""
    del at, end
    rest = match["rest"].lower() if match else "-"
    if match is None or not match["sign"] or not _AUTHORIZATION.fullmatch(rest):
        return None
    start, stop, _ = _locate_value(text, match)
    scheme = _SCHEME.match(text, start) if rest.endswith("orization") else None
    if scheme:
        return (*scheme.span(1), "authorization") if is_possible_password(scheme[1]) else None
    return (start, stop, "authorization") if is_random_secret(text[start:stop]) else None


_ANCHOR_JUDGES = {b"bearer": _judge_bearer, b"auth": _judge_authorization}


def _locate_value(text: str, match: re.Match[str]) -> tuple[int, int, bool]:
    """Return where the value is, and whether it is in quotes."""
    group = next(name for name in ("double", "single", "tick", "bare") if match[name] is not None)
    start, stop = match.span(group)
    return start, _find_bare_end(text, start, stop) if group == "bare" else stop, group != "bare"


def _name_before(text: str, at: int) -> str:
    """Return the part of the name before the anchor."""
    before = text[max(0, at - _MAX_LEFT) : max(0, at)]
    return before[len(before.rstrip(_NAME_CHARACTERS)) :]


def _words_before(text: str, at: int, word: str) -> str:
    """Return the part of the name before the anchor; of a key also the word before a blank (`API key`)."""
    left = _name_before(text, at)
    return left or _name_before(text, at - 1) if word.lower() == "key" else left


def _is_assigning_operator(match: re.Match[str], left: str, text: str, at: int, value: str) -> bool:
    """Return whether the text between name and value assigns the one to the other."""
    if match["blank"]:
        return left.startswith("-") or is_random_like(value, 8)
    if match["element"]:
        return text[: at - len(left)][-1:] in ("<", ":") or "<" in text[max(0, at - _MAX_LEFT) : at]
    return not match["comma"] or text[max(0, at - len(left) - 1) : at - len(left)] in ("'", '"')


def _find_bare_end(text: str, start: int, stop: int) -> int:
    """Return where an unquoted value ends: before the next parameter of a query, and without the sentence's mark."""
    value = text[start:stop]
    line = text[max(0, start - 300) : start].rpartition("\n")[2] if "&" in value else ""
    if "?" in line or "&" in line[-_MAX_LEFT - 60 :]:
        value = value.partition("&")[0]
    return start + len(value.rstrip(".,;:)]}\\"))


def _find_cookies(text: str, lower: bytes) -> Iterator[Span]:
    """Yield the values of cookies that carry a session."""
    done = 0
    for at in find_each(lower, b"cookie"):
        head = _COOKIE.match(text, at + 6) if at >= done else None
        if head:
            line = text.find("\n", at)
            done = min(len(text) if line < 0 else line, at + 8_192)
            for match in _COOKIE_PAIR.finditer(text, head.end(), done):
                if len(match[2]) >= _MIN_SESSION_VALUE and _COOKIE_NAME.search(match[1]) and _is_session_like(match[2]):
                    yield *match.span(2), "cookie"


def _is_session_like(value: str) -> bool:
    return is_random_secret(value) or is_uuid(value) or (len(value) >= 10 and is_possible_password(value))
