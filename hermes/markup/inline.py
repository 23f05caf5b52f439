"""The marks inside a line of markdown: emphasis, code, links."""

import re
from collections.abc import Callable

from msgspec import Struct

from hermes.markup.cells import safe

STRONG, EMPHASIS, STRIKE = range(3)
_STYLES = ("strong", "emphasis", "strike")

_MARKS = re.compile(r"[*_~`\[<$\\&!]|https?://")
"""What a text must hold to have marks at all."""
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
"""A text and the parts of its style."""
Span = tuple[str, str, str]
"""A text, the parts of its style, and the address that it leads to: empty where it is no link."""


class _Opener(Struct):
    mark: str
    left: int
    """How many of the marks are not used up."""
    at: int
    """Its place among the pieces."""


class _Reader:
    """Reads one block; linear in its length."""

    def __init__(self, base: str) -> None:
        self._base = base
        self.pieces: list[Span] = []
        self._changes: dict[int, list[tuple[int, int]]] = {}
        """Per place: which style begins (1) or ends (-1) before that piece."""
        self._openers: list[_Opener] = []

    def text(self, words: str, style: str = "", href: str = "") -> None:
        if words:
            self.pieces.append((words, style, href))

    def run(self, marks: str, before: str, after: str) -> None:
        """A run of `*`, `_` or `~~`, which opens or closes a style, by the letters at its sides."""
        opens, closes = _sides(marks[0], before, after)
        left = len(marks)
        if closes:
            left = self._close(marks[0], left)
        if left and opens and left <= 3:
            self._openers.append(_Opener(marks[0], left, len(self.pieces)))
            self.pieces.append((marks[0] * left, "mark", ""))
        elif left:
            self.text(marks[0] * left)

    def _close(self, mark: str, left: int) -> int:
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

    def spans(self) -> list[Span]:
        """What was read, in parts of one style each."""
        found: list[Span] = []
        on = [0, 0, 0]
        now = self._base
        for place, (words, style, href) in enumerate(self.pieces):
            if place in self._changes:
                for which, step in self._changes[place]:
                    on[which] += step
                now = " ".join([self._base, *(name for name, count in zip(_STYLES, on, strict=True) if count > 0)])
            if words:
                found.append((words, now if style in ("", "mark") else f"{now} {style}", href))
        return found


def runs_of(text: str, base: str) -> list[Run]:
    """The text in runs of one style each; `base` is the style of all of it. Formulas stay as they are."""
    if not _MARKS.search(text):
        return [(text, base)]
    reader = _Reader(base)
    _read(reader, text, _link)
    return [(words, style) for words, style, _ in reader.spans()]


def spans_of(text: str) -> list[Span]:
    """The text in parts of one style each, links with their addresses; pictures are of the style `image`."""
    if not _MARKS.search(text):
        return [(text, "", "")]
    reader = _Reader("")
    _read(reader, text, _leading)
    return [(words, style.strip(), href) for words, style, href in reader.spans()]


def _read(reader: _Reader, text: str, link: Callable[[_Reader, re.Match[str]], None]) -> None:
    at, size = 0, len(text)
    missing: set[str] = set()
    while at < size:
        match = _TOKEN.search(text, at)
        if match is None:
            break
        begin, end = match.span()
        reader.text(text[at:begin])
        if match["fence"]:
            end = _code(reader, text, match, missing)
        elif match["run"]:
            reader.run(match["run"], text[begin - 1] if begin else "", text[end] if end < size else "")
        elif match["link"]:
            link(reader, match)
        elif match["url"]:
            words = _trimmed(match["url"])
            reader.text(words, "link", words)
            end = begin + len(words)
        elif match["auto"]:
            reader.text(match["auto"], "link", _address(match["auto"]))
        else:
            reader.text(_plain(match))
        at = end
    reader.text(text[at:])


def _plain(match: re.Match[str]) -> str:
    """What a token stands for that is neither a mark nor a link."""
    if match["escape"]:
        return match["escape"][1]
    return _meant(match["entity"]) if match["entity"] else match[0]


def _address(auto: str) -> str:
    return auto if ":" in auto else f"mailto:{auto}"


def _code(reader: _Reader, text: str, match: re.Match[str], missing: set[str]) -> int:
    """Code between runs of backticks of one length; returns where it ends."""
    marks = match["fence"]
    start = match.end()
    at = start if marks not in missing else -1
    while at >= 0:
        at = text.find(marks, at)
        if at >= 0 and text[at + len(marks) : at + len(marks) + 1] != "`" and text[at - 1] != "`":
            words = text[start:at].replace("\n", " ")
            if words.strip() and words[0] == words[-1] == " ":
                words = words[1:-1]
            reader.text(words, "code")
            return at + len(marks)
        if at >= 0:
            while text[at : at + 1] == "`":
                at += 1
    missing.add(marks)
    reader.text(marks)
    return start


def _link(reader: _Reader, match: re.Match[str]) -> None:
    """A link's words, and its address behind them where it says more."""
    words = match["words"]
    place = _place(match)
    if match["link"].startswith("!"):
        words = words or "image"
    for inner, style in runs_of(words, "") if _MARKS.search(words) else [(words, "")]:
        reader.text(inner, f"{style.strip()} link".strip())
    if place and place not in (words, f"mailto:{words}") and not place.startswith("#"):
        reader.text(" (" if words else "")
        reader.text(place, "address")
        reader.text(")" if words else "")


def _leading(reader: _Reader, match: re.Match[str]) -> None:
    """A link's or a picture's words with their address."""
    words, place = match["words"], _place(match)
    kind = "image" if match["link"].startswith("!") else "link"
    words = words or ("image" if kind == "image" else place)
    for inner, style in runs_of(words, "") if _MARKS.search(words) else [(words, "")]:
        reader.text(inner, f"{style.strip()} {kind}".strip(), place)


def _place(match: re.Match[str]) -> str:
    place = match["angled"] if match["angled"] is not None else match["place"] or ""
    return _ENTITY.sub(lambda found: _meant(found[0]), place.replace("\n", ""))


def _meant(entity: str) -> str:
    """The characters that an entity such as `&copy;` stands for; itself where it is unknown, or would be unseen."""
    from html import unescape  # its table is large, and most texts have none

    meant = unescape(entity)
    if entity[1] != "#" and ";" in meant[1:]:
        return entity  # unknown, though its beginning may be known
    return safe(meant) or entity


def _trimmed(url: str) -> str:
    """The address without the marks of the sentence it stands in."""
    while url and (url[-1] in _END_OF_URL or (url[-1] == ")" and url.count(")") > url.count("("))):
        url = url[:-1]
    return url


_WIDE = "\u2e80"
"""Where Chinese and Japanese letters begin."""


def _sides(mark: str, before: str, after: str) -> tuple[bool, bool]:
    """Whether a run of marks may open, and may close a style (CommonMark's flanking rules; Chinese and Japanese have no
    spaces, so there a sign may stand between the run and its style: `**好。**再见`)."""
    space_before, space_after = not before or before.isspace(), not after or after.isspace()
    word_before, word_after = before.isalnum(), after.isalnum()
    opens = not space_after and (word_after or not word_before or before >= _WIDE)
    closes = not space_before and (word_before or not word_after or after >= _WIDE)
    if mark == "_":
        return opens and not word_before, closes and not word_after
    return opens, closes
