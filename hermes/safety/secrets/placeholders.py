"""Recognizes values that only look like secrets: placeholders, words, identifiers, hashes; and random text."""

import re
from itertools import pairwise
from operator import ne

from hermes.util.text import compile_late

_PLACEHOLDER_SIGNS = compile_late(
    r"^(?:\$|%[a-z_(]|\{|<|!|@|#\{|enc\[|vault:|arn:|env[.:(]|ref\+|op://|secretref|file:|/run/|/etc/|~/|\.\.?/|"
    r"https?://|process\.|os\.|self\.|this\.|args?\.|req(?:uest)?\.|settings\.|config\.|var\.|local\.|data\.|secrets\.)"
    r"|\.\.\.|…|\*{3}|x{4}|\[redacted|\[secret|\{\{|\}\}|<[a-z _-]+>|\$\{|\$\(|%s|%\("
)
"""Signs of placeholders, for text in lower case: a case-insensitive search is several times slower."""
_PLACEHOLDER_WORDS = compile_late(
    r"example|change.?me|your.?(?:own|api|key|token|secret|pass)|placeholder|dummy|replace.?(?:me|this)|redacted|"
    r"insert.?|goes.?here|sample|todo|fixme|not.?set|undefined|foo.?bar|lorem|fake.?(?:key|token|secret|pass)|"
    r"test.?(?:key|token|secret|pass)|(?:my|the|some|secret|api|default).?(?:key|token|secret|pass(?:word)?)$"
)
_COMMON_WORDS = """
    password password1 password12 password123 passw0rd p@ssw0rd p@ssword secret secret1 secret123 changeme letmein admin
    admin1 admin123 administrator root toor guest user user1 test test1 test123 test1234 testing qwerty qwerty123
    qwertyuiop abc123 abcd1234 iloveyou welcome welcome1 monkey dragon master 12345678 123456789 1234567890 123456
    1234567 11111111 00000000 password! hunter2 postgres mysql redis mongo rabbitmq minio minioadmin true false none
    null nil string bytes optional required missing invalid empty default unknown enabled disabled localhost production
    development staging correcthorsebatterystaple basic bearer token digest negotiate pass username
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_SEQUENCES = compile_late(
    r"(?:0?123456789?0?|abcdefghi?j?k?l?m?n?o?p?q?r?s?t?u?v?w?x?y?z?|987654321?0?|deadbeef|cafebabe)", re.IGNORECASE
)
_UUID = compile_late(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_HEX = compile_late(r"[0-9a-fA-F]+")
_PARTS = compile_late(r"[-_.:/\s]+")
_IDENTIFIER = compile_late(r"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|->|::)[A-Za-z_][A-Za-z0-9_]*)*(?:[\[(].*)?")
_USUAL_PAIRS = frozenset(
    row[0] + second
    for row in str.split("""
        abcdfgiklmnprstuvwxy baceilorsuy cacdehiklmoprstu dabcdefilmoprstu eabcdefgiklmnopqrstuvwxy faefilorstu
        gaehilnorsu haeiortu iabcdefgklmnoprstvxz jae kaeios lacdefilmopstuy mabdeilmopsu nacdefgiklnoprstuv
        oabcdefgiklmnoprstuvwx pacdehiloprstuy qu rabcdefgiklmnoprstuvy sacdefhiklmnoprstuwy tabcdefhilmnoprstuwy
        uabcdefgilmnprst vaeio waeiors xeipt yaenpst zaei
    """)
    for second in row[1:]
)
"""Pairs of letters that make up 93% of those in words of documents and programs: a letter, and what follows it."""
_MIN_LETTERS = 16
_CLASS = str.maketrans("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "a" * 26 + "A" * 26 + "0" * 10)


def is_placeholder(value: str) -> bool:
    """Return whether the text is a placeholder for a secret: a variable, a template, a word for an example."""
    small = value.lower()
    return (
        _PLACEHOLDER_SIGNS.search(small) is not None
        or _PLACEHOLDER_WORDS.search(small) is not None
        or len(set(value)) <= max(2, len(value) // 12 if len(value) < 60 else 3)
    )


def is_common_password(value: str) -> bool:
    """Return whether it is a common password."""
    return value.lower() in _COMMON


def is_uuid(value: str) -> bool:
    """Return whether it is written as a UUID."""
    return _UUID.fullmatch(value) is not None


def is_identifier(value: str) -> bool:
    """Return whether a program would take it for a name, a path of names, or a call."""
    return _IDENTIFIER.fullmatch(value) is not None


def is_random_like(value: str, least: int = 10) -> bool:
    """Return whether some unbroken part of it looks random, not made of words and numbers."""
    if len(value) < least:
        return False
    rest = _SEQUENCES.sub("-", value)
    return any(len(part) >= least and _is_scattered(part) for part in _PARTS.split(rest))


def is_generated_key(body: str) -> bool:
    """Return whether the text after a vendor's prefix can be a generated key, not words that happen to follow it."""
    if is_placeholder(body):
        return False
    if _HEX.fullmatch(body) and len(body) >= 16:
        return len(set(body)) > 4
    if body.isupper() and len(body) >= 16:
        return True
    return is_random_like(body, 8) or (
        len(body) >= 16 and is_random_like(_PARTS.sub("", body)) and _has_mixed_parts(body)
    )


def _has_mixed_parts(text: str) -> bool:
    """Return whether digits stand among the letters of several parts, as words and numbers do not."""
    return sum(_is_scattered(part) for part in _PARTS.split(text) if len(part) >= 4) >= 2


def _is_unpronounceable(letters: str) -> bool:
    """Return whether too many pairs of letters are unusual for words, even where words have nothing between them."""
    unusual = sum(first + second not in _USUAL_PAIRS for first, second in pairwise(letters))
    return unusual >= len(letters) // 4 + 2


def _is_scattered(part: str) -> bool:
    """Return whether kinds of characters change too often for a word, a name in camel case, or a number."""
    kinds = part.translate(_CLASS)
    if kinds.isdigit():
        return False
    if _HEX.fullmatch(part) and len(part) >= 20:
        return len(set(part)) > 6
    turns = sum(map(ne, kinds, kinds[1:]))
    digits, upper = kinds.count("0"), kinds.count("A")
    letters = len(kinds) - digits
    if digits and letters:
        return turns >= 3 or (turns == 2 and min(digits, letters) >= 2 and len(part) >= 10)
    if letters >= _MIN_LETTERS and _is_unpronounceable(part.lower()):
        return True
    # A name in camel case turns twice a word, and a word has four letters and more.
    return 0 < upper < letters and turns > max(3, len(part) / 3)
