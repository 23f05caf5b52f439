"""Markdown in what each platform reads, all from one reading of it (`parts.py`).

Whatever a model writes is inert there: nothing calls everybody in a room, nothing is HTML of its own, and addresses are
links only when they lead to the web or to a mailbox. Pictures are links: nothing is fetched to show a text.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from urllib.parse import quote as percent

from hermes.markup.blocks import Kind
from hermes.markup.document import Part, addressed, aligned, bars, is_marker, marks, parts_of, quotes
from hermes.markup.inline import Span

_LINKED = re.compile(r"(?:https?://[^\s<>]+|mailto:[^\s<>]+)$", re.IGNORECASE)
_CALL = re.compile(r"@(?=(?:everyone|here|channel|all|room)\b)", re.IGNORECASE)
_GAP = "\u200b"
"""Unseen, and parts what must not be read as one word."""


def tame(text: str) -> str:
    """The text without the words that call everybody in a room (`@everyone`, `@here`, `@channel`, `@all`, `@room`)."""
    return _CALL.sub(f"@{_GAP}", text) if "@" in text else text


def leads(href: str) -> bool:
    """Whether an address may be a link: to the web, or to a mailbox."""
    return _LINKED.match(href) is not None


# Text with marks in it.


class _Dialect(ABC):
    """How parts are written as lines of text."""

    quote = "> "
    bullet = "•"

    def text(self, markdown: str) -> str:
        """The whole text."""
        found: list[str] = []
        for part in parts_of(markdown):
            if found:
                found.append("\n\n" if part.gap else "\n")
            found.append(self._part(part))
        return "".join(found)

    def _part(self, part: Part) -> str:
        if part.kind in (Kind.CODE, Kind.TABLE):
            body = self.fenced("\n".join(aligned(part)) if part.kind is Kind.TABLE else part.text, part.label)
            left = bars(quotes(part.around), self.quote)
            lines = [left + line for line in body.split("\n")]
            if any(map(is_marker, part.around)):
                lines.insert(0, marks(part.around, self.quote, self.bullet).rstrip())
            return "\n".join(lines)
        first, *others = self._body(part).split("\n")
        left = bars(part.around, self.quote)
        return "\n".join([marks(part.around, self.quote, self.bullet) + first, *(left + line for line in others)])

    def _body(self, part: Part) -> str:
        match part.kind:
            case Kind.HEADING:
                return self.heading(part)
            case Kind.RULE:
                return self.rule()
            case Kind.PARAGRAPH:
                return self.words(part.spans)
            case _:
                return self.literal(part.text)

    def rule(self) -> str:
        """A line across."""
        return "———"

    @abstractmethod
    def heading(self, part: Part) -> str:
        """A heading's words."""

    @abstractmethod
    def fenced(self, text: str, label: str) -> str:
        """Code, or what else wants a fixed-width font."""

    @abstractmethod
    def words(self, spans: Sequence[Span]) -> str:
        """The words of a paragraph."""

    @abstractmethod
    def literal(self, text: str) -> str:
        """Text as it stands."""


class _Plain(_Dialect):
    """No marks at all, for where none are read."""

    def heading(self, part: Part) -> str:
        return self.words(part.spans)

    def fenced(self, text: str, label: str) -> str:
        return text

    def words(self, spans: Sequence[Span]) -> str:
        return "".join([words for words, _, _ in addressed(spans)])

    def literal(self, text: str) -> str:
        return text


class _Marked(_Dialect):
    """Marks around words, nested as the styles are."""

    pairs: Sequence[tuple[str, str]] = ()
    """Styles and their marks, outermost first."""

    def words(self, spans: Sequence[Span]) -> str:
        found: list[str] = []
        open_marks: list[str] = []
        for words, style, href in [*spans, ("", "", "")]:
            styles = style.split()
            code = "code" in styles and not self.in_code(words)
            wanted = [] if code else [mark for name, mark in self.pairs if name in styles]
            keep = 0
            while keep < len(open_marks) and keep < len(wanted) and open_marks[keep] == wanted[keep]:
                keep += 1
            closing = "".join(reversed(open_marks[keep:]))
            opening = "".join(wanted[keep:])
            self._put(found, closing, opening, self.code(words) if code else self.linked(words, href))
            open_marks = wanted
        return "".join(found)

    def _put(self, found: list[str], closing: str, opening: str, words: str) -> None:
        """Marks do not stand beside spaces on their inner side: there they are not read as marks."""
        if closing and found and (spaces := found[-1][len(found[-1].rstrip()) :]):
            found[-1] = found[-1].rstrip()
            words = spaces + words if not opening else words
            found.append(closing + (spaces if opening else ""))
        elif closing:
            found.append(closing)
        if opening:
            stripped = words.lstrip()
            found.append(words[: len(words) - len(stripped)] + opening)
            words = stripped
        if words:
            found.append(words)

    def in_code(self, words: str) -> bool:
        """Whether these words cannot be written as code within a line."""
        return "`" in words

    def code(self, words: str) -> str:
        """Code within a line."""
        return f"`{words}`"

    def heading(self, part: Part) -> str:
        return self.words([(words, _with(style, "strong"), href) for words, style, href in part.spans])

    def fenced(self, text: str, label: str) -> str:
        return f"```{label}\n{text.replace('```', f'``{_GAP}`')}\n```"

    @abstractmethod
    def linked(self, words: str, href: str) -> str:
        """Words that lead to an address, or (without one) just words."""


def _with(style: str, other: str) -> str:
    return style if other in style.split() or "code" in style.split() else f"{style} {other}".strip()


_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class _Slack(_Marked):
    """Slack's mrkdwn."""

    pairs = (("strong", "*"), ("emphasis", "_"), ("strike", "~"))

    def _put(self, found: list[str], closing: str, opening: str, words: str) -> None:
        # A mark is read only at the edge of a word, which Chinese does not show.
        if opening and found and found[-1][-1:].isalnum():
            found.append(_GAP)
        if closing and words[:1].isalnum():
            closing += _GAP
        super()._put(found, closing, opening, words)

    def code(self, words: str) -> str:
        return f"`{words.translate(_SLACK_ESCAPES)}`"

    def fenced(self, text: str, label: str) -> str:
        return super().fenced(text, "").translate(_SLACK_ESCAPES)

    def literal(self, text: str) -> str:
        return tame(text.translate(_SLACK_ESCAPES))

    def linked(self, words: str, href: str) -> str:
        shown = self.literal(words)
        if not leads(href):
            return shown
        place = percent(href, safe="!#$%&'()*+,/:;=?@[]~").translate(_SLACK_ESCAPES)
        return f"<{place}>" if words == href else f"<{place}|{shown.replace('|', '¦')}>"


_DISCORD_MARKS = re.compile(r"[\\`|<]|[*~]+|(?<![^\W_])_+|_+(?![^\W_])")
_DISCORD_STARTS = re.compile(r"^(\s*)(#{1,3} |-# |>{1,3} |[-*+] |\d+(?=\. ))", re.MULTILINE)


class _Discord(_Marked):
    """Discord's markdown; what is not meant as a mark is escaped, and no address makes a preview."""

    pairs = (("strong", "**"), ("emphasis", "*"), ("strike", "~~"))
    bullet = "-"

    def in_code(self, words: str) -> bool:
        return "``" in words or words.startswith("`") or words.endswith("`")

    def code(self, words: str) -> str:
        return f"``{words}``" if "`" in words else f"`{words}`"

    def heading(self, part: Part) -> str:
        if part.level > 3:
            return super().heading(part)
        return f"{'#' * part.level} {self.words(part.spans)}"

    def words(self, spans: Sequence[Span]) -> str:
        return _DISCORD_STARTS.sub(r"\1\\\2", super().words(spans))

    def literal(self, text: str) -> str:
        return tame(_DISCORD_MARKS.sub(lambda match: "".join(f"\\{one}" for one in match[0]), text))

    def linked(self, words: str, href: str) -> str:
        if not leads(href):
            return self.literal(words)
        place = href.replace(">", "%3E").replace("<", "%3C")
        if href in (words, f"mailto:{words}"):
            return f"<{place}>" if words == href else self.literal(words)
        return f"[{self.literal(words).replace('[', '(').replace(']', ')')}](<{place}>)"


def plain(markdown: str) -> str:
    """The text without any marks: bullets, aligned tables, addresses behind the words that lead to them."""
    return _Plain().text(markdown)


def slack(markdown: str) -> str:
    """The text in Slack's mrkdwn."""
    return _Slack().text(markdown)


def discord(markdown: str) -> str:
    """The text in Discord's markdown."""
    return _Discord().text(markdown)
