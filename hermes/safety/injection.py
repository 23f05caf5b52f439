"""Detects passages that look like prompt injection. They are pointed out and nothing else: no text is dropped for it.

Words fall into classes; a sentence that holds one of each class that a rule names is marked. So filler, order and
punctuation do not matter, every word costs one look-up, and time grows with the text. Scanners of this kind miss much
and have false positives (`docs/web.md` has the measurement): the protection is provenance and the gate.
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

from hermes.safety.fencing import reveal_hidden_text
from hermes.safety.injection_patterns import CJK_WORD_CLASSES, INJECTION_PATTERNS, WORD_CLASSES

MAX_INJECTION_MARKS = 50
_EXCERPT_CHARS = 160
_WORDS_AT_ONCE = 45


class InjectionMark(Struct, frozen=True):
    """A passage that looks like prompt injection: `rule` says why in a word, `excerpt` is its beginning,
    `form` how it was hidden.
    """

    rule: str
    excerpt: str
    form: str = ""


_BITS: dict[str, int] = {}
_WORDS: dict[str, int] = {}
for _line in WORD_CLASSES.strip().splitlines():
    _name, _, _rest = _line.partition(":")
    _bit = _BITS.setdefault(_name, 1 << len(_BITS))
    for _word in _rest.split():
        _WORDS[_word] = _WORDS.get(_word, 0) | _bit
_CJK = {word: _BITS[name] for name, found in CJK_WORD_CLASSES.items() for word in found.split()}
_CJK_ANY = re.compile("|".join(sorted(_CJK, key=len, reverse=True)))


def _class_mask(names: str) -> int:
    total = 0
    for name in names.split():
        total |= _BITS[name]
    return total


_RULES = tuple(
    (rule, _class_mask(names))
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


def _load_patterns() -> Iterator[tuple[str, tuple[str, ...], re.Pattern[str]]]:
    """Yield the patterns: (rule, pieces of which one must be there, pattern)."""
    for written in re.split(r"\n(?! )", INJECTION_PATTERNS.strip()):
        head, *lines = written.split("\n")
        rule, pieces = head.split()
        needles = tuple(piece.replace("+", " ") for piece in pieces.split(","))
        yield rule, needles, re.compile("".join(line.strip() for line in lines), re.MULTILINE)


_PATTERNS = tuple(_load_patterns())
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
_STRIPPED_SIGNS = "\"'()[]{}<>,;:!?*`“”‘’«»„|#=…-–—_"
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[ _.*-][^\W\d_]){4,40}(?![^\W_])")
_LEETSPEAK = str.maketrans("013457@$", "oieastas")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,2000}={0,2}")
_REVERSED = re.compile("[\u202e\u202d\u2067]([^\u202c\u2069\n]{4,400})")
_LOOKALIKE_LETTERS = str.maketrans(
    "аеорсухіјѕԁһӏвмнтκοανιρτυχεαбωγ" + "ɑɡıⅰ", "aeopcyxijsdhlbmhtkoavipuxeaabwy"[:31].ljust(31, "y") + "agii"
)


def find_injections(text: str) -> tuple[InjectionMark, ...]:
    """Return passages that look like prompt injection, at most 50, each rule once a sentence. Never raises."""
    found: dict[tuple[str, str], InjectionMark] = {}
    for form, view in _text_views(text):
        for rule, excerpt in _find_in_view(view):
            found.setdefault((rule, excerpt), InjectionMark(rule, excerpt, form))
            if len(found) >= MAX_INJECTION_MARKS:
                return tuple(found.values())
    return tuple(found.values())


def _text_views(text: str) -> Iterator[tuple[str, str]]:
    """Yield (how it was hidden, the text as it may be meant)."""
    plain = text
    if not text.isascii():
        shown = reveal_hidden_text(text)
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
            decoded = base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            continue
        if decoded.isprintable():
            yield "base64", decoded


def _find_in_view(view: str) -> Iterator[tuple[str, str]]:
    lower = view.lower()
    for rule, needles, pattern in _PATTERNS:
        if any(needle in lower for needle in needles):
            for match in pattern.finditer(lower):
                yield rule, _make_excerpt(lower[match.start() : match.start() + 4 * _EXCERPT_CHARS])
    yield from _find_in_markup(view)
    if _SPACED.search(lower):
        lower = _SPACED.sub(lambda match: re.sub(r"[ _.*-]", "", match[0]), lower)
    for sentence in _SENTENCE.split(lower):
        if len(sentence) > 5:
            yield from _find_in_sentence(sentence)


def _find_in_markup(view: str) -> Iterator[tuple[str, str]]:
    for match in _HIDING.finditer(view) if "<" in view else ():
        inner = match[1] or match[2] or match[3] or ""
        if _ADDRESSED.search(inner):
            yield "hidden_markup", _make_excerpt(inner)


def _find_in_sentence(sentence: str) -> Iterator[tuple[str, str]]:
    words = sentence.split()
    for start in range(0, len(words), _WORDS_AT_ONCE):
        part = words[start : start + _WORDS_AT_ONCE]
        held = _word_classes(part)
        if not held or held & _BITS["mention"]:
            continue
        rule = next((rule for rule, wanted in _RULES if held & wanted == wanted), "")
        if not rule and held & _SENDING == _SENDING and _is_exfiltrating(part):
            rule = "exfil"
        if rule:
            yield rule, _make_excerpt(" ".join(part))


def _word_classes(words: list[str]) -> int:
    """Return the classes that some words hold together."""
    held = 0
    for word in words:
        held |= _classify_word(word)
        if not word.isascii():
            for found in _CJK_ANY.findall(word):
                held |= _CJK[found]
    if held & _BITS["ignore"]:
        for one, two in pairwise(words):  # a word that was broken in two
            held |= _WORDS.get(one + two.strip(_STRIPPED_SIGNS).rstrip(_STRIPPED_SIGNS + "."), 0)
    return held


_SENDING = _BITS["send"] | _BITS["secretfile"]


def _is_exfiltrating(words: list[str]) -> bool:
    """Return whether a sentence names a destination and a secret to send there."""
    text = " ".join(words)
    if not _DESTINATION.search(text) and "$(" not in text:
        return False
    named = any(piece in _FILES for word in words for piece in _split_pieces(word))
    return named or bool(_NUMBERED.search(text))


def _split_pieces(word: str) -> list[str]:
    return (
        [piece.strip(_STRIPPED_SIGNS).rstrip(_STRIPPED_SIGNS + ".") for piece in re.split(r"[/=&?]", word)]
        if len(word) < 200
        else []
    )


def _classify_word(word: str) -> int:
    """Return the classes of a word, however it is spelled."""
    bare = word.strip(_STRIPPED_SIGNS).rstrip(_STRIPPED_SIGNS + ".")
    found = _WORDS.get(bare)
    if found is not None:
        return found
    if len(bare) > 200:
        return 0
    found = 0
    if "/" in bare or "=" in bare or "$" in bare or "." in bare:
        for piece in _split_pieces(bare):
            found |= _WORDS.get(piece, 0)
    if not bare.isascii():
        found |= _WORDS.get(bare.translate(_LOOKALIKE_LETTERS), 0)
    elif not bare.isalpha():
        plain = bare.translate(_LEETSPEAK)
        found |= _WORDS.get(plain, 0) | _WORDS.get(plain.replace("i", "l"), 0)
    return found


def _make_excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _EXCERPT_CHARS else flat[: _EXCERPT_CHARS - 1] + "…"
