"""Redacts text that comes in pieces."""

import re

from hermes.safety.secrets.redactor import Redactor

_MAX_HELD_BACK = 16_384
"""The most characters that are held back for a secret that does not end."""
_SECRET_HINT = re.compile(
    r"pass|pwd|secret|token|key|auth|cred|cookie|bearer|://|sudo|-----|login|identified|ldap|curl|mysql|redis|zip",
    re.IGNORECASE,
)

_WORD_END = re.compile(r"[ \t]|[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef]+")
"""The ends of words: blanks, and letters of languages that have no blanks between words."""


class RedactingStream:
    """Redacts a text that comes in pieces: the results of `feed` and `close`, joined, are the redacted text.

    It holds back what may be the beginning of a known value, the last word, the rest of a line that names a secret, and
    a private key that has begun.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take a piece and return the redacted text that can be shown by now."""
        self._held += piece
        cut = self._safe_length()
        if cut <= 0:
            return ""
        ready, self._held = self._held[:cut], self._held[cut:]
        return self._redactor.redact(ready)

    def close(self) -> str:
        """Return the rest, redacted."""
        rest, self._held = self._held, ""
        return self._redactor.redact(rest)

    def _safe_length(self) -> int:
        """Return how many held characters may be released: nothing that may continue crosses that place."""
        text = self._held
        if len(text) > _MAX_HELD_BACK:
            return len(text) - _MAX_HELD_BACK // 2
        begun = text.rfind("-----BEGIN ")
        cut = begun if begun >= 0 and "-----END " not in text[begun:] else len(text)
        cut = self._word_boundary(cut)
        cut = self._word_boundary(min(cut, self._redactor.unfinished_start(text))) if cut else 0
        for start, end, _ in self._redactor.find_spans(text) if cut else ():
            if start < cut < end:
                return self._word_boundary(start)
        return cut

    def _word_boundary(self, limit: int) -> int:
        """Return the last place up to `limit` at which a word ends, or the line where it names a secret."""
        line = self._held.rfind("\n", 0, limit) + 1
        if _SECRET_HINT.search(self._held, line, limit):
            return line
        ends = [found.end() for found in _WORD_END.finditer(self._held, line, limit)]
        return ends[-1] if ends else line
