"""Parses the inline marks of markdown: emphasis, code, links."""

import re
from collections.abc import Callable

from msgspec import Struct

from hermes.markup.cells import sanitize_line

STRONG, EMPHASIS, STRIKE = range(3)
_STYLES = ("strong", "emphasis", "strike")

_MARKS = re.compile(r"[*_~`\[<$\\&!]|https?://")
"""A text without a match has no marks at all."""
_TOKEN = re.compile(
    r"""
      (?P<escape>\\[!-'*-/:-@^_`{|}~\\])
    | (?P<math>\\\(.+?\\\)|\\\[.+?\\\]|\$\$[^$]+\$\$|(?<![\w$])\$[^\s$](?:[^$\n]*[^\s$\\])?\$(?![\w$]))
    | (?P<fence>(?<!`)`+(?!`))
    | (?P<link>!?\[(?P<words>(?:[^\[\]\\]|\\.|\[[^\[\]]*\])*)\]
        \([ \t]*(?:<(?P<angled>[^<>\n]*)>|(?P<place>[^\s()<>]*(?:\([^\s()]*\)[^\s()]*)*))
        (?:[ \t\n]+(?:"[^"\n]*"|'[^'\n]*'))?[ \t]*\))
    | <(?P<auto>[a-zA-Z][a-zA-Z0-9+.-]{1,31}:[^\s<>]*|[\w.+-]+@[\w.-]+)>
    | (?P<url>https?://[^\s<>`"'|\\\u3000-\u303f\uff00-\uff0f\uff1a-\uff1f]+)
    | (?P<run>\*+|_+|~~)
    | (?P<entity>&(?:[a-zA-Z][a-zA-Z0-9]{1,30}|\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6});)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,30}|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_END_OF_URL = ".,;:!?*_~"

Run = tuple[str, str]
"""A text and the names of its styles."""
Span = tuple[str, str, str]
"""A text, the names of its styles, and the address of its link; empty where it is no link."""


class _Opener(Struct):
    mark: str
    left: int
    """The number of marks that are not used up."""
    at: int
    """Its index among the pieces."""


class _InlineParser:
    """Parses one block; linear in its length."""

    def __init__(self, base: str) -> None:
        self._base = base
        self.pieces: list[Span] = []
        self._changes: dict[int, list[tuple[int, int]]] = {}
        """By index: which style begins (1) or ends (-1) before that piece."""
        self._openers: list[_Opener] = []

    def add_text(self, words: str, style: str = "", href: str = "") -> None:
        if words:
            self.pieces.append((words, style, href))

    def add_run(self, marks: str, before: str, after: str) -> None:
        """Add a run of `*`, `_` or `~~`, which opens or closes a style depending on the letters at its sides."""
        opens, closes = _find_flanking(marks[0], before, after)
        left = len(marks)
        if closes:
            left = self._close_styles(marks[0], left)
        if left and opens and left <= 3:
            self._openers.append(_Opener(marks[0], left, len(self.pieces)))
            self.pieces.append((marks[0] * left, "mark", ""))
        elif left:
            self.add_text(marks[0] * left)

    def _close_styles(self, mark: str, left: int) -> int:
        while left:
            place = next((n for n in range(len(self._openers) - 1, -1, -1) if self._openers[n].mark == mark), -1)
            if place < 0:
                return left
            del self._openers[place + 1 :]
            opener = self._openers[place]
            used = 2 if min(opener.left, left) >= 2 else 1
            style = STRIKE if mark == "~" else STRONG if used == 2 else EMPHASIS
            self._changes.setdefault(opener.at + 1, []).append((style, 1))
            self._changes.setdefault(len(self.pieces), []).append((style, -1))
            opener.left -= used
            left -= used
            self.pieces[opener.at] = (mark * opener.left, "mark", "")
            if not opener.left:
                self._openers.pop()
        return 0

    def build_spans(self) -> list[Span]:
        """Return what was read, in parts of one style each."""
        found: list[Span] = []
        open_counts = [0, 0, 0]
        now = self._base
        for place, (words, style, href) in enumerate(self.pieces):
            if place in self._changes:
                for which, step in self._changes[place]:
                    open_counts[which] += step
                now = " ".join(
                    [self._base, *(name for name, count in zip(_STYLES, open_counts, strict=True) if count > 0)]
                )
            if words:
                found.append((words, now if style in ("", "mark") else f"{now} {style}", href))
        return found


def parse_runs(text: str, base: str) -> list[Run]:
    """Parse the text into runs of one style each; `base` is the style of all of it. Formulas stay as they are."""
    if not _MARKS.search(text):
        return [(text, base)]
    reader = _InlineParser(base)
    _read_tokens(reader, text, _add_link_text)
    return [(words, style) for words, style, _ in reader.build_spans()]


def parse_spans(text: str) -> list[Span]:
    """Parse the text into parts of one style each, links with their addresses; pictures have the style `image`."""
    if not _MARKS.search(text):
        return [(text, "", "")]
    reader = _InlineParser("")
    _read_tokens(reader, text, _add_link_span)
    return [(words, style.strip(), href) for words, style, href in reader.build_spans()]


def _read_tokens(reader: _InlineParser, text: str, add_link: Callable[[_InlineParser, re.Match[str]], None]) -> None:
    at, size = 0, len(text)
    missing: set[str] = set()
    while at < size:
        match = _TOKEN.search(text, at)
        if match is None:
            break
        begin, end = match.span()
        reader.add_text(text[at:begin])
        if match["fence"]:
            end = _add_code(reader, text, match, missing)
        elif match["run"]:
            reader.add_run(match["run"], text[begin - 1] if begin else "", text[end] if end < size else "")
        elif match["link"]:
            add_link(reader, match)
        elif match["url"]:
            words = _trim_url(match["url"])
            reader.add_text(words, "link", words)
            end = begin + len(words)
        elif match["auto"]:
            reader.add_text(match["auto"], "link", _autolink_address(match["auto"]))
        else:
            reader.add_text(_token_text(match))
        at = end
    reader.add_text(text[at:])


def _token_text(match: re.Match[str]) -> str:
    """Return the text of a token that is neither a mark nor a link."""
    if match["escape"]:
        return match["escape"][1]
    return _decode_entity(match["entity"]) if match["entity"] else match[0]


def _autolink_address(auto: str) -> str:
    return auto if ":" in auto else f"mailto:{auto}"


def _add_code(reader: _InlineParser, text: str, match: re.Match[str], missing: set[str]) -> int:
    """Add code between runs of backticks of one length; return where it ends."""
    marks = match["fence"]
    start = match.end()
    at = start if marks not in missing else -1
    while at >= 0:
        at = text.find(marks, at)
        if at >= 0 and text[at + len(marks) : at + len(marks) + 1] != "`" and text[at - 1] != "`":
            words = text[start:at].replace("\n", " ")
            if words.strip() and words[0] == words[-1] == " ":
                words = words[1:-1]
            reader.add_text(words, "code")
            return at + len(marks)
        if at >= 0:
            while text[at : at + 1] == "`":
                at += 1
    missing.add(marks)
    reader.add_text(marks)
    return start


def _add_link_text(reader: _InlineParser, match: re.Match[str]) -> None:
    """Add a link's words, and its address behind them where it says more."""
    words = match["words"]
    place = _link_target(match)
    if match["link"].startswith("!"):
        words = words or "image"
    for inner, style in parse_runs(words, "") if _MARKS.search(words) else [(words, "")]:
        reader.add_text(inner, f"{style.strip()} link".strip())
    if place and place not in (words, f"mailto:{words}") and not place.startswith("#"):
        reader.add_text(" (" if words else "")
        reader.add_text(place, "address")
        reader.add_text(")" if words else "")


def _add_link_span(reader: _InlineParser, match: re.Match[str]) -> None:
    """Add a link's or a picture's words with their address."""
    words, place = match["words"], _link_target(match)
    kind = "image" if match["link"].startswith("!") else "link"
    words = words or ("image" if kind == "image" else place)
    for inner, style in parse_runs(words, "") if _MARKS.search(words) else [(words, "")]:
        reader.add_text(inner, f"{style.strip()} {kind}".strip(), place)


def _link_target(match: re.Match[str]) -> str:
    place = match["angled"] if match["angled"] is not None else match["place"] or ""
    return _ENTITY.sub(lambda found: _decode_entity(found[0]), place.replace("\n", ""))


def _decode_entity(entity: str) -> str:
    """Decode an entity such as `&copy;`; return it unchanged when it is unknown or would be invisible."""
    from html import unescape  # its table is large, and most texts have none

    meant = unescape(entity)
    if entity[1] != "#" and ";" in meant[1:]:
        return entity  # unknown, though its beginning may be known
    return sanitize_line(meant) or entity


def _trim_url(url: str) -> str:
    """Return the address without the punctuation of the sentence around it."""
    while url and (url[-1] in _END_OF_URL or (url[-1] == ")" and url.count(")") > url.count("("))):
        url = url[:-1]
    return url


_FIRST_WIDE = "\u2e80"
"""The first Chinese and Japanese letters."""


def _find_flanking(mark: str, before: str, after: str) -> tuple[bool, bool]:
    """Return whether a run of marks may open, and may close a style, by CommonMark's flanking rules.

    Chinese and Japanese have no spaces, so there a punctuation mark may stand between the run and its style:
    `**好。**再见`.
    """
    space_before, space_after = not before or before.isspace(), not after or after.isspace()
    word_before, word_after = before.isalnum(), after.isalnum()
    opens = not space_after and (word_after or not word_before or before >= _FIRST_WIDE)
    closes = not space_before and (word_before or not word_after or after >= _FIRST_WIDE)
    if mark == "_":
        return opens and not word_before, closes and not word_after
    return opens, closes
