"""Redaction of a text that comes in pieces."""

import re

from hermes.safety.secrets.redactor import Redactor

_LONGEST = 16_384
"""Characters that are held back at most, for what never ends."""
_OPEN = re.compile(
    r"pass|pwd|secret|token|key|auth|cred|cookie|bearer|://|sudo|-----|login|identified|ldap|curl|mysql|redis|zip",
    re.IGNORECASE,
)

_EDGE = re.compile(r"[ \t]|[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef]+")
"""Where a word ends: at a blank, and at letters of languages that have none between their words."""


class RedactingStream:
    """Redacts a text that comes in pieces: what `feed` and `close` give is, put together, the redacted text.

    Held back is what may be the beginning of a held value, the last word, the rest of a line that names a secret, and a
    private key that has begun.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take a piece; what can be shown by now."""
        self._held += piece
        cut = self._safe()
        if cut <= 0:
            return ""
        ready, self._held = self._held[:cut], self._held[cut:]
        return self._redactor.redact(ready)

    def close(self) -> str:
        """The rest."""
        rest, self._held = self._held, ""
        return self._redactor.redact(rest)

    def _safe(self) -> int:
        """How much of what is held may be given away: nothing that may go on stands across that place."""
        text = self._held
        if len(text) > _LONGEST:
            return len(text) - _LONGEST // 2
        begun = text.rfind("-----BEGIN ")
        cut = begun if begun >= 0 and "-----END " not in text[begun:] else len(text)
        cut = self._boundary(cut)
        cut = self._boundary(min(cut, self._redactor.unfinished(text))) if cut else 0
        for start, end, _ in self._redactor.spans(text) if cut else ():
            if start < cut < end:
                return self._boundary(start)
        return cut

    def _boundary(self, limit: int) -> int:
        """The last place up to here at which a word ends, or the line where it names a secret."""
        line = self._held.rfind("\n", 0, limit) + 1
        if _OPEN.search(self._held, line, limit):
            return line
        ends = [found.end() for found in _EDGE.finditer(self._held, line, limit)]
        return ends[-1] if ends else line
