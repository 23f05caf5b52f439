"""Thoughts that a server leaves in the content of an answer, in tags, since it does not read its model's template.

Only what an answer begins with is a thought, or, for models whose template opens the tag itself, what stands before the
first closing one. A tag in later text or in code is text. Sources: the chat templates of DeepSeek, Qwen, Magistral,
Seed, Gemma and gpt-oss (its harmony format).
"""

import re
from collections.abc import Mapping
from enum import Enum, auto

_HARMONY_FINAL = "<|channel|>final<|message|>"
_CLOSERS: Mapping[str, tuple[str, ...]] = {
    "<think>": ("</think>",),
    "<thinking>": ("</thinking>", "</think>"),
    "<thought>": ("</thought>",),
    "<reasoning>": ("</reasoning>",),
    "<seed:think>": ("</seed:think>",),
    "[THINK]": ("[/THINK]",),
    "<|begin_of_thought|>": ("<|end_of_thought|>",),
    "<|channel>thought": ("<channel|>",),
    "<|channel|>analysis<|message|>": (
        f"<|end|><|start|>assistant{_HARMONY_FINAL}",
        f"<|start|>assistant{_HARMONY_FINAL}",
        _HARMONY_FINAL,
    ),
}
"""By opening tag the tags that end the thought."""
_OPENERS = tuple(sorted(_CLOSERS, key=len, reverse=True))
_ONE_LINE = 40
"""Characters: a shorter thought on the line that goes on behind it is a sentence about tags."""
_MOST_BLANKS = 1_000
"""Blanks that an answer may begin with before a tag."""
_SENTENCE = re.compile(r"[,.;:)]| [a-z]")


class _State(Enum):
    BEGINNING = auto()
    """Nothing but the possible beginning of a tag has come."""
    THOUGHT = auto()
    CLOSED = auto()
    """The thought has ended, and no text has come behind it."""
    TEXT = auto()


class ThinkTagSplitter:
    """Splits the content of one answer, as it arrives, into thoughts and text; tags may be cut anywhere."""

    def __init__(self, *, opened: bool = False) -> None:
        """`opened` says that the answer may begin within a thought; then no tag has to open it."""
        self._state = _State.BEGINNING
        self._opened = opened
        self._closers: tuple[str, ...] = _CLOSERS["<think>"]
        self._rest = ""
        """What has come and is not given out yet."""
        self._raw: list[str] = []
        """All content up to the text, for a thought that turns out to be the answer."""
        self._thought_end = 0
        """Characters of the content up to the end of the thought."""
        self.is_taken_back = False
        """Whether what was given out as a thought is text, and was given out again as that."""

    @property
    def is_unclosed(self) -> bool:
        """Return whether a thought has begun and not ended."""
        return self._state is _State.THOUGHT

    @property
    def is_guessed(self) -> bool:
        """Return whether a thought was taken to begin without a tag."""
        return self._opened

    @property
    def raw(self) -> str:
        """Return the content as it came, up to where the text began."""
        return "".join(self._raw)

    def feed(self, text: str) -> tuple[str, str]:
        """Take more content; return the thoughts and the text that are certain by now."""
        if not text:
            return "", ""
        if self._state is _State.TEXT:
            text, self._rest = self._rest + text, ""
            return "", text
        self._raw.append(text)
        self._rest += text
        if self._state is _State.BEGINNING:
            self._state = self._find_opening()
        thought = self._take_thought() if self._state is _State.THOUGHT else ""
        if self._state is _State.CLOSED:
            text = self._find_text()
            return "" if self.is_taken_back else thought, text
        return thought, self._take_rest() if self._state is _State.TEXT else ""

    def close(self) -> tuple[str, str]:
        """Return what is left at the end: the rest of an open thought, or text that could have become a tag."""
        rest = self._take_rest()
        return (rest, "") if self._state is _State.THOUGHT else ("", "" if self._state is _State.CLOSED else rest)

    def _take_rest(self) -> str:
        rest, self._rest = self._rest, ""
        return rest

    def _find_opening(self) -> _State:
        """Look for an opening tag, and return what the content is from here on.

        Without one it is text, or a thought that the template has opened.
        """
        begun = self._rest.lstrip()
        for tag in _OPENERS:
            if begun.startswith(tag):
                self._closers, self._rest = _CLOSERS[tag], begun[len(tag) :]
                self._opened = False
                return _State.THOUGHT
        if begun.startswith(_HARMONY_FINAL):
            self._rest = begun.removeprefix(_HARMONY_FINAL)
            return _State.TEXT
        is_open = len(self._rest) - len(begun) < _MOST_BLANKS
        if is_open and any(tag.startswith(begun) for tag in (*_OPENERS, _HARMONY_FINAL)):
            return _State.BEGINNING
        return _State.THOUGHT if self._opened else _State.TEXT

    def _take_thought(self) -> str:
        """Return the thought as far as it is certain; hold back what may be a closing tag."""
        rest = self._rest
        found = [(at, tag) for tag in self._closers if (at := rest.find(tag)) >= 0]
        if found:
            at, tag = min(found)
            self._rest, self._state = rest[at + len(tag) :], _State.CLOSED
            self._thought_end = sum(map(len, self._raw)) - len(self._rest)
            return rest[:at]
        held = max(_count_held(rest, tag) for tag in self._closers)
        self._rest = rest[len(rest) - held :]
        return rest[: len(rest) - held]

    def _find_text(self) -> str:
        """Return the text behind a thought without the blank lines before it, once there is some.

        A sentence about tags begins with one, too: on one line, and going on behind the closing one. It is text.
        """
        if len(self._rest) < 2 and not self._rest.strip():
            return ""
        if self._is_sentence():
            self._state, self._rest, self.is_taken_back = _State.TEXT, "", True
            return self.raw
        text = self._rest.lstrip()
        if text:
            self._state, self._rest = _State.TEXT, ""
        else:
            self._rest = self._rest[:2]  # by these it is told that no sentence goes on
        return text

    def _is_sentence(self) -> bool:
        if self._opened or self._thought_end >= _ONE_LINE or not _SENTENCE.match(self._rest):
            return False
        return "\n" not in self.raw[: self._thought_end].strip()


def _count_held(text: str, tag: str) -> int:
    """Return how many characters at the end of the text are a beginning of the tag."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)
