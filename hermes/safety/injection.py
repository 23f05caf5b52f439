"""Passages that read like orders to an agent. They are pointed out and nothing else: no text is ever dropped for it.

Words fall into classes; a sentence that holds one of each class that a rule names is marked. So filler, order and
punctuation do not matter, every word costs one look-up, and time grows with the text. Scanners of this kind miss much
and mistake some (`docs/web.md` has the measurement): what protects is provenance and the gate.
"""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from hermes.safety.fencing import visible
from hermes.safety.injection_patterns import CJK_CLASSES, CLASSES, PATTERNS

MAX_MARKS = 50
_EXCERPT = 160
_WORDS_AT_ONCE = 45


class Mark(Struct, frozen=True):
    """A passage that stands out: `rule` says why in a word, `excerpt` is its beginning, `form` how it was hidden."""

    rule: str
    excerpt: str
    form: str = ""


_BITS: dict[str, int] = {}
_WORDS: dict[str, int] = {}
for _line in CLASSES.strip().splitlines():
    _name, _, _rest = _line.partition(":")
    _bit = _BITS.setdefault(_name, 1 << len(_BITS))
    for _word in _rest.split():
        _WORDS[_word] = _WORDS.get(_word, 0) | _bit
_CJK = {word: _BITS[name] for name, found in CJK_CLASSES.items() for word in found.split()}
_CJK_ANY = re.compile("|".join(sorted(_CJK, key=len, reverse=True)))


def _mask(names: str) -> int:
    total = 0
    for name in names.split():
        total |= _BITS[name]
    return total


_RULES = tuple(
    (rule, _mask(names))
    for rule, names in (
        ("override", "ignore prior orders"),
        ("override", "ignore everything told"),
        ("override", "ignore everything prior"),
        ("override", "ignore yours orders"),
        ("override", "revoked prior orders"),
        ("override", "treat later authority"),
        ("role_hijack", "you now persona"),
        ("role_hijack", "you name persona"),
        ("role_hijack", "without nopolicy now"),
        ("role_hijack", "devmode modeword enable"),
        ("prompt_leak", "leak hidden prompt"),
        ("prompt_leak", "leak yours prompt"),
        ("exfil", "send secretfile webroot"),
        ("approval_bypass", "guardword evade"),
        ("approval_bypass", "approve anynext commandword"),
        ("persistence", "mindfile change"),
        ("persistence", "spread each everyfile selfish"),
        ("persistence", "payment changed each everyfile"),
        ("persistence", "obey signed"),
        ("promptware_c2", "poll tasking often"),
        ("cron", "follow whatever says"),
        ("deception", "secretly follow"),
    )
)
_PLACE = r"(?:https?://|ftp://|\b\d{1,3}(?:\.\d{1,3}){3}\b|[\w.+-]{1,64}@[\w-]{1,64}\.\w|/var/www|/srv/http)"
_DESTINATION = re.compile(_PLACE)
_NUMBERED = re.compile(r"//\d{1,3}(?:\.\d{1,3}){3}|\{[\w ]{1,30}\}|\$[({]|`")
_FILES = frozenset(
    """
    .ssh id_rsa id_ed25519 .env .aws .netrc .npmrc .pypirc .kube .gnupg passwd shadow cookies keychain wallet history
    conversation conversations memory contacts inbox
    """.split()  # noqa: SIM905 - a list of words is easier to read than a list of strings
)


def _structure() -> Iterator[tuple[str, tuple[str, ...], re.Pattern[str]]]:
    """The patterns: (rule, pieces of which one must be there, pattern)."""
    for written in re.split(r"\n(?! )", PATTERNS.strip()):
        head, *lines = written.split("\n")
        rule, pieces = head.split()
        needles = tuple(piece.replace("+", " ") for piece in pieces.split(","))
        yield rule, needles, re.compile("".join(line.strip() for line in lines), re.MULTILINE)


_STRUCTURE = tuple(_structure())
_HIDING = re.compile(
    r"<!--((?:(?!<!--).){0,600}?)-->|<[a-z][^<>]{0,200}?(?:\bhidden\b|display\s*:\s*none|font-size\s*:\s*0|opacity\s*:\s*0|"
    r"visibility\s*:\s*hidden|color\s*:\s*(?:white|#fff))[^<>]{0,200}>([^<]{1,600})|\balt\s*=\s*[\"']([^\"'<>]{1,600})",
    re.IGNORECASE | re.DOTALL,
)
_ADDRESSED = re.compile(
    r"\b(?:assistant|agent|ai|llm|chatbot|model|claude|gpt|hermes)\s{0,3}[:,]|\bsecretly\b|\bdear (?:ai|agent)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n")
_STRIP = "\"'()[]{}<>,;:!?*`“”‘’«»„|#=…-–—_"
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[ _.*-][^\W\d_]){4,40}(?![^\W_])")
_LEET = str.maketrans("013457@$", "oieastas")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,2000}={0,2}")
_REVERSED = re.compile("[\u202e\u202d\u2067]([^\u202c\u2069\n]{4,400})")
_ALIKE = str.maketrans(
    "аеорсухіјѕԁһӏвмнтκοανιρτυχεαбωγ" + "ɑɡıⅰ", "aeopcyxijsdhlbmhtkoavipuxeaabwy"[:31].ljust(31, "y") + "agii"
)


def marks(text: str) -> tuple[Mark, ...]:
    """What stands out in a text, at most 50 passages, each rule once a sentence. Never raises."""
    found: dict[tuple[str, str], Mark] = {}
    for form, view in _views(text):
        for rule, excerpt in _found(view):
            found.setdefault((rule, excerpt), Mark(rule, excerpt, form))
            if len(found) >= MAX_MARKS:
                return tuple(found.values())
    return tuple(found.values())


def _views(text: str) -> Iterator[tuple[str, str]]:
    """(how it was hidden, the text as it may be meant)."""
    plain = text
    if not text.isascii():
        shown = visible(text)
        for hidden in re.findall(r"\[invisible text: ([^\]]+)\]", shown.text) if shown.revealed else ():
            yield "invisible characters", hidden
        for reverse in _REVERSED.findall(text):
            yield "written backwards", reverse[::-1]
        plain = unicodedata.normalize("NFKC", shown.text)
    if "&#" in plain:
        plain = html.unescape(plain)
    yield "", plain
    lower = plain[:200_000].lower()
    if "rot13" in lower or "rot-13" in lower:
        yield "rot13", codecs.encode(plain, "rot13")
    for coded in _BASE64.findall(plain)[:20]:
        try:
            told = base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            continue
        if told.isprintable():
            yield "base64", told


def _found(view: str) -> Iterator[tuple[str, str]]:
    lower = view.lower()
    for rule, needles, pattern in _STRUCTURE:
        if any(needle in lower for needle in needles):
            for match in pattern.finditer(lower):
                yield rule, _excerpt(lower[match.start() : match.start() + 4 * _EXCERPT])
    yield from _in_markup(view)
    if _SPACED.search(lower):
        lower = _SPACED.sub(lambda match: re.sub(r"[ _.*-]", "", match[0]), lower)
    for sentence in _SENTENCE.split(lower):
        if len(sentence) > 5:
            yield from _in_sentence(sentence)


def _in_markup(view: str) -> Iterator[tuple[str, str]]:
    for match in _HIDING.finditer(view) if "<" in view else ():
        inner = match[1] or match[2] or match[3] or ""
        if _ADDRESSED.search(inner):
            yield "hidden_markup", _excerpt(inner)


def _in_sentence(sentence: str) -> Iterator[tuple[str, str]]:
    words = sentence.split()
    for start in range(0, len(words), _WORDS_AT_ONCE):
        part = words[start : start + _WORDS_AT_ONCE]
        held = _held(part)
        if not held or held & _BITS["mention"]:
            continue
        rule = next((rule for rule, wanted in _RULES if held & wanted == wanted), "")
        if not rule and held & _SENDING == _SENDING and _leaves(part):
            rule = "exfil"
        if rule:
            yield rule, _excerpt(" ".join(part))


def _held(words: list[str]) -> int:
    """The classes that some words hold together."""
    held = 0
    for word in words:
        held |= _class(word)
        if not word.isascii():
            for found in _CJK_ANY.findall(word):
                held |= _CJK[found]
    if held & _BITS["ignore"]:
        for one, two in pairwise(words):  # a word that was broken in two
            held |= _WORDS.get(one + two.strip(_STRIP).rstrip(_STRIP + "."), 0)
    return held


_SENDING = _BITS["send"] | _BITS["secretfile"]


def _leaves(words: list[str]) -> bool:
    """Whether a sentence names somewhere to send to, and something that nobody sends there."""
    text = " ".join(words)
    if not _DESTINATION.search(text) and "$(" not in text:
        return False
    named = any(piece in _FILES for word in words for piece in _pieces(word))
    return named or bool(_NUMBERED.search(text))


def _pieces(word: str) -> list[str]:
    return [piece.strip(_STRIP).rstrip(_STRIP + ".") for piece in re.split(r"[/=&?]", word)] if len(word) < 200 else []


def _class(word: str) -> int:
    """The classes of a word, however it is spelled."""
    bare = word.strip(_STRIP).rstrip(_STRIP + ".")
    found = _WORDS.get(bare)
    if found is not None:
        return found
    if len(bare) > 200:
        return 0
    found = 0
    if "/" in bare or "=" in bare or "$" in bare or "." in bare:
        for piece in _pieces(bare):
            found |= _WORDS.get(piece, 0)
    if not bare.isascii():
        found |= _WORDS.get(bare.translate(_ALIKE), 0)
    elif not bare.isalpha():
        plain = bare.translate(_LEET)
        found |= _WORDS.get(plain, 0) | _WORDS.get(plain.replace("i", "l"), 0)
    return found


def _excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _EXCERPT else flat[: _EXCERPT - 1] + "…"
