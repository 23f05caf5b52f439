"""Judges whether a name is a secret's, and whether a value may be a password that was chosen or generated."""

import re
from functools import lru_cache

from hermes.safety.secrets.placeholders import (
    is_common_password,
    is_identifier,
    is_placeholder,
    is_random_like,
    is_uuid,
)

_SAFE_REST = re.compile(
    r"^(?:s?_?(?:count|length|len|hash|hashed|digest|id|ids|type|name|names|file|filename|path|dir|limit|size|expir\w*|"
    r"ttl|policy|field|fields|header|prefix|suffix|version|url|uri|endpoint|min\w*|max\w*|reset|required|strength|"
    r"rounds|index|status|format|usage|used|budget|hint|label|algorithm|alg|store|provider|class|column|pattern|regex|"
    r"error|errors|age|code|event|board|pair|map|list|set|ring|space|stone|frame|note|word|words|wordlist|port|mode|"
    r"schema|arn|ref|refs|reference|var|env|source|prompt|validator|rules|scope|scopes|created|updated|at|by|on|off|"
    r"thumbprint|fingerprint|checksum|present|enabled|disabled|lifetime|duration|rate|rotation|count_\w+))$"
    r"|^(?:izer|ize|board|word|frame|stone|note|pad|noise|ring|enger|age|ion|ive|port|ed|ing|es\b|or|ors|ored|entic|"
    r"ority|ur|ry|ret|its|ible)",
    re.IGNORECASE,
)
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
_KIND_OF_PASS = re.compile("^(?:word|wd|phrase|code)", re.IGNORECASE)
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
    rest = _strip_password_word(anchor, rest)
    if _has_safe_word(left) or (rest not in _ENDINGS and _SAFE_REST.match(rest)):
        return 0
    if anchor != "token" and rest not in _ENDINGS and rest[:1].islower():
        return 0  # small letters after it make another word of it
    if anchor == "key":
        return _STRONG_WEIGHT if _is_access_key(word, left) else 0
    weak = anchor == "token" and rest and left[-1:] in ("", ".")
    return _WEAK_WEIGHT if weak else _STRONG_WEIGHT


def _strip_password_word(anchor: str, rest: str) -> str:
    """Return the text after the whole word: `_hash` in `password_hash`."""
    return _KIND_OF_PASS.sub("", rest) if anchor == "pass" else rest


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
