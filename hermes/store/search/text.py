"""Text for the search index: from messages to indexed text, from a query to search terms, and snippets around hits.

The index's tokenizer splits at everything that is not a letter or digit. Scripts without spaces (Han, kana, Hangul) are
spaced out, one character a token, so that a word of any length is a phrase. Single characters are common, which makes
phrases of them slow; so each two neighbors are stored as a token too, and a run of two or more is a phrase of such
pairs. Private-use characters are reserved for the index's own labels.
"""

import re
import unicodedata
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from hermes.core.messages import Message, TextPart, ToolCallPart, ToolResultPart
from hermes.util.text import clean_surrogates, to_one_line

TEXT_LIMIT = 65_536
"""The number of characters of one message that can be found."""
_QUERY_LIMIT = 1_000
_TERM_LIMIT = 24
_PHRASE_LIMIT = 8
_CHUNK_LIMIT = 64
_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_CJK}]+")
_PIECE = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_PRIVATE = re.compile("[\0\ue000-\uf8ff\U000f0000-\U0010ffff]")
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{129,}")
_FUNCTION = re.compile(
    "为什么|怎么样|什么样|有没有|是不是|能不能|我们|你们|他们|咱们|上次|之前|怎么|怎样|如何|什么|哪里|哪儿|哪个|谁|是否|记得|还是"
    "|一下|[不的了吗呢吧啊呀么着过是在和与或把被给对跟从就都也还很这那我你他她它]"
)
"""Function words of Chinese questions, whatever these are about."""
_FUNCTION_WEIGHT = 0.3
_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”|„([^“”]*)[“”]|«([^»]*)»|「([^」]*)」|『([^』]*)』')
"""A phrase in quotation marks. Single ones are apostrophes too often."""
_NO_MARKS = {ord('"'): " "}
_SPACES = re.compile(r"[\s，。！？；：、（）「」『』《》〈〉【】“”‘’…—]+")
_ENDINGS = (
    "ations", "ation", "ments", "ment", "ings", "ing", "ions", "ion", "edly", "ies", "ers",
    "er", "ed", "es", "ly", "s", "e", "y",
)  # fmt: skip


class SearchTerm(msgspec.Struct, frozen=True):
    """A word of a query in the index's syntax: exactly as written, and with its other endings."""

    exact: str
    loose: str
    text: str
    """The word in lower case."""
    needle: str
    """The lower-case text to look for in a message, to show the place."""
    weight: float = 1.0
    """Its weight when not every word is found."""


def normalize_text(text: str) -> str:
    """Return one form for characters that look or mean the same, without characters that the index reserves."""
    if text.isascii():
        return text.replace("\0", " ")
    text = unicodedata.normalize("NFKC", clean_surrogates(text))
    return _PRIVATE.sub(" ", text)


def space_characters(text: str) -> str:
    """Return the text with every character of a script without spaces standing by itself."""
    if text.isascii():
        return text
    return _RUN.sub(lambda run: f" {' '.join(run[0])} ", text)


def pair_characters(text: str) -> str:
    """Return each two neighbors in the runs of characters of scripts without spaces, in order."""
    if text.isascii():
        return ""
    return " ".join([" ".join(map(str.__add__, run, run[1:])) for run in _RUN.findall(text) if len(run) > 1])


def extract_message_text(message: Message) -> str:
    """Return the searchable text of a message: what was said, what tools were asked and what they gave back.

    Reasoning, pictures, injected text and what Hermes itself added are left out.
    """
    if message.synthetic:
        return ""
    pieces = [message.text] if any(isinstance(part, TextPart) for part in message.parts) else []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            pieces.append(part.name)
            pieces.extend(_extract_argument_text(part.arguments))
        elif isinstance(part, ToolResultPart):
            pieces.append(part.text)
    return "\n".join(pieces)[:TEXT_LIMIT]


def _extract_argument_text(arguments: str) -> list[str]:
    """Return the strings in a call's JSON arguments, escapes undone; the raw text when it is not JSON."""
    try:
        todo: list[object] = [msgspec.json.decode(arguments)]
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return [arguments]
    found: list[str] = []
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo.extend(reversed(value.values()))
        elif isinstance(value, list):
            todo.extend(reversed(value))
        elif value is not None and not isinstance(value, bool):
            found.append(str(value))
    return found


def build_index_text(message: Message) -> tuple[str, str]:
    """Return the message's text as it is indexed: words and characters, and pairs of characters."""
    text = extract_message_text(message)
    if len(text) > 1_000:
        text = _BLOB.sub(" ", text)
    text = normalize_text(text)
    return space_characters(text), pair_characters(text)


def make_label(kind: str, value: str) -> str:
    """Return a token that no text contains, for the limits of a search."""
    return f"\ue000{kind}{blake2b(value.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def split_phrases(query: str) -> tuple[list[SearchTerm], str]:
    """Return the phrases of a query, which stand in quotation marks, and the query without them.

    A phrase is found as it is written, word for word in this order; case, accents and punctuation do not count. One
    without a letter or digit, and a mark without its partner, mean nothing.
    """
    query = query[:_QUERY_LIMIT]
    if not _QUOTED.search(query):
        return [], query
    phrases: dict[str, SearchTerm] = {}
    for match in _QUOTED.finditer(query):
        text = normalize_text(next(filter(None, match.groups()), ""))
        pieces = _PIECE.findall(text)
        if pieces:
            term = _make_phrase(text, pieces)
            phrases.setdefault(term.exact, term)
    return list(phrases.values())[:_PHRASE_LIMIT], _QUOTED.sub(" ", query)


def _make_phrase(text: str, pieces: Sequence[str]) -> SearchTerm:
    """Return a phrase. A run of characters is looked up by its pairs first, which are rarer than single ones."""
    exact = f'"{space_characters(text).translate(_NO_MARKS).strip()}"'
    if len(pieces) == 1 and (pairs := pair_characters(pieces[0])):
        exact = f'("{pairs}" AND {exact})'
    lowered = " ".join(text.lower().split())
    return SearchTerm(exact, exact, lowered, lowered)


def parse_terms(query: str) -> list[SearchTerm]:
    """Return the words of a query. Nothing in it is syntax; what holds no letter or digit is left out."""
    found: dict[str, SearchTerm] = {}
    for chunk in _SPACES.split(query[:_QUERY_LIMIT]):
        pieces = _PIECE.findall(normalize_text(chunk)[:_CHUNK_LIMIT])
        if pieces:
            term = _make_term(pieces)
            found.setdefault(term.exact, term)
    return list(found.values())[:_TERM_LIMIT]


def split_terms(found: list[SearchTerm]) -> list[SearchTerm]:
    """Return smaller words for a second look: compounds split, long runs of characters as overlapping pairs.

    A pair with a part of a function word counts little: it may be a word (what is asked about), or where two words met.
    """
    smaller: dict[str, SearchTerm] = {}
    for term in found:
        for piece in _PIECE.findall(term.text):
            if not _RUN.match(piece) or len(piece) <= 2:
                smaller.setdefault(piece, _make_term([piece], typo=True))
                continue
            for pair in _make_pairs(piece):
                if pair.weight >= smaller.get(pair.exact, pair).weight:
                    smaller[pair.exact] = pair
    strong = [term for term in smaller.values() if term.weight == 1]
    weak = [term for term in smaller.values() if term.weight < 1]
    return [*strong[:_TERM_LIMIT], *weak[: max(0, _TERM_LIMIT // 2 - len(strong))]]


def _make_pairs(run: str) -> list[SearchTerm]:
    """Return the overlapping pairs of a run; those with a part of a function word weigh little."""
    function = {place for match in _FUNCTION.finditer(run) for place in range(*match.span())}
    return [
        msgspec.structs.replace(
            _make_term([run[start : start + 2]]), weight=_FUNCTION_WEIGHT if function & {start, start + 1} else 1.0
        )
        for start in range(len(run) - 1)
    ]


def _make_term(pieces: list[str], *, typo: bool = False) -> SearchTerm:
    """Return a phrase of the pieces. `typo`: cut more of a word's end than its known ending."""
    exact = f'"{pair_characters(pieces[0]) if len(pieces) == 1 else ""}"'
    if exact == '""':
        exact = f'"{space_characters(" ".join(pieces)).strip()}"'
    text = " ".join(pieces).lower()
    last = pieces[-1]
    if _RUN.match(last) or len(last) < 3 or not last.isalpha():
        return SearchTerm(exact, exact, text, text)
    if len(pieces) == 1 and len(last) == 3:  # as the beginning of other words it would stand for too many
        return SearchTerm(exact, f'({exact} OR "{last}s")', text, text)
    if len(pieces) > 1 or not last.isascii():
        return SearchTerm(exact, f"{exact}*", text, text)
    stem = _stem_word(text)
    if typo:
        stem = stem[: max(4, len(last) - max(2, len(last) // 3))]
    return SearchTerm(exact, f'"{stem}"*', text, stem)


def _stem_word(word: str) -> str:
    """Return the word without an English ending, if at least four letters are left."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def count_typos(one: str, other: str) -> int:
    """Count the typing errors that turn one word into the other: a letter wrong, missing, extra, or two swapped."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, queued in enumerate(one):
        before, last, row = row, before, [i + 1]
        for j, wanted in enumerate(other):
            cost = min(before[j] + (queued != wanted), before[j + 1] + 1, row[j] + 1)
            if i and j and queued == other[j - 1] and one[i - 1] == wanted:
                cost = min(cost, last[j - 1] + 1)
            row.append(cost)
    return row[-1]


def make_snippet(text: str, needles: list[str], width: int = 160) -> str:
    """Return one line of the text around the first of the needles that is in it, else its beginning."""
    lowered = text.lower()
    start = -1
    for needle in needles:
        for form in (needle, needle.replace(" ", ""), needle.split(" ", 1)[0]):
            start = lowered.find(form)
            if start >= 0:
                break
        if start >= 0:
            break
    begin = max(0, start - width // 3)
    line = to_one_line(text[begin : begin + 2 * width], width)
    return f"…{line}" if begin else line
