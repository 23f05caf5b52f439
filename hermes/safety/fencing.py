"""Fences untrusted text between marks that it cannot forge, and makes everything in it visible.

Nothing meaningful is dropped: invisible text is shown, characters that only disturb are removed and counted.
"""

import os
import re
from hashlib import blake2b

from msgspec import Struct

from hermes.core.messages import Provenance, Source
from hermes.i18n.messages import N_
from hermes.util.text import IGNORABLES, compile_late, is_in_place

TAG = "untrusted"
_MAX_LABEL = 300
_SGR = compile_late("\x1b\\[[0-9;:]{0,40}m")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_RETURN = re.compile("\r\n?")
_ODD = compile_late(f"[{IGNORABLES}]+")
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_EMOJI = frozenset({"\u200d", "\ufe0f\u200d", "\ufe0e\u200d"})
"""Characters that join several emoji to one."""
_FLAG = "\U0001f3f4"
_FENCE_MARK = compile_late(r"[<\uff1c\u2039\u3008]([\s/\uff0f]{0,8})(?=untrusted)", re.IGNORECASE)
_CONTROL_TOKEN = compile_late(r"<\|(?=\w{1,40}\|>)|<\uff5c(?=[\w\u2581]{1,40}\uff5c>)")


_FENCE_KEY = os.urandom(16)
"""The key of fence ids: the same text has the same id, so that a repeated result is recognized, and nobody
outside of this process can predict it.
"""


class RevealedText(Struct, frozen=True):
    """A text in which everything is visible: how many characters were removed, and how many were spelled out."""

    text: str
    removed: int = 0
    revealed: int = 0

    @property
    def note(self) -> str:
        """Return a note on what was changed; empty when nothing was."""
        notes = [N_("{removed} invisible characters taken out", removed=self.removed)] if self.removed else []
        notes += [N_("{revealed} shown in another way", revealed=self.revealed)] if self.revealed else []
        return "; ".join(notes)


def fence_untrusted_text(text: str, provenance: Provenance) -> str:
    """Return the text between an opening and a closing mark with an id that the text cannot know.

    What looks like such a mark inside is defused, as are a chat template's control tokens. A file's text
    stays as it is otherwise, so that it can be edited by what is shown of it.
    """
    seen = RevealedText(text) if provenance.source is Source.FILE else reveal_hidden_text(show_control_characters(text))
    inner = seen.text
    if "ntrusted" in inner.lower():
        inner = _FENCE_MARK.sub(lambda match: f"‹{match[1]}", inner)
    if "<|" in inner or "<\uff5c" in inner:
        inner = _CONTROL_TOKEN.sub("‹|", inner)
    identity = blake2b(text.encode("utf-8", "surrogatepass"), key=_FENCE_KEY, digest_size=5).hexdigest()
    label = re.sub(r'[\s"<>]+', " ", reveal_hidden_text(show_control_characters(provenance.label)).text)[:_MAX_LABEL]
    origin = f' from="{label}"' if label else ""
    note = f"\n[{seen.note}]" if seen.note else ""
    return f'<{TAG} source="{provenance.source}"{origin} id="{identity}">\n{inner}\n</{TAG} id="{identity}">{note}'


def show_control_characters(text: str) -> str:
    """Return the text without power over a terminal: colors are removed, every other control character is shown.

    Tab and line feed stay; a carriage return, which would overwrite what stands before it, begins a line.
    """
    if "\r" in text:
        text = _RETURN.sub("\n", text)
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub(lambda match: _control_picture(match[0]), _SGR.sub("", text))


def _control_picture(char: str) -> str:
    code = ord(char)
    if code < 32:
        return chr(0x2400 + code)
    return "␡" if code == 127 else f"\\x{code:02x}"


def reveal_hidden_text(text: str) -> RevealedText:
    """Return the text with everything invisible removed or spelled out.

    Joiners within scripts and emoji that need them, single variation selectors and the tags of a flag stay. Tags and
    runs of variation selectors that spell a text are shown as that text; bidirectional controls by their number.
    """
    if text.isascii() or not _ODD.search(text):
        return RevealedText(text)
    counts = [0, 0]

    def replace_run(match: re.Match[str]) -> str:
        run = match[0]
        shown = _replace_hidden_run(run, text, match.start())
        kept_count = sum(char in shown for char in run) if shown else 0
        if "[" in shown or "\\u{" in shown:
            counts[1] += len(run) - kept_count
        else:
            counts[0] += len(run) - kept_count
        return shown

    return RevealedText(_ODD.sub(replace_run, text), counts[0], counts[1])


def _is_part_of_emoji(run: str, before: str) -> bool:
    flag = before == _FLAG and run.endswith("\U000e007f") and len(run) <= 8
    return flag or (run in _EMOJI and ord(before or "a") > 0x2000)


def _replace_hidden_run(run: str, text: str, at: int) -> str:
    """Return the replacement of a run of invisible characters, which begins at a place of the text."""
    if _is_part_of_emoji(run, text[at - 1 : at]):
        return run
    if len(run) == 1 and run not in _BIDI:
        return run if is_in_place(text, at) else ""
    spelled = "".join(_decode_hidden_character(char) for char in run)
    rest = "".join(f"\\u{{{ord(char):x}}}" for char in run if char in _BIDI)
    return (f"[invisible text: {spelled}]" if sum(map(str.isalnum, spelled)) >= 2 else "") + rest


def _decode_hidden_character(char: str) -> str:
    """Return the character that an invisible one encodes; empty if it encodes none."""
    code = ord(char)
    if 0xE0020 <= code <= 0xE007E:
        return chr(code - 0xE0000)
    if 0xFE00 <= code <= 0xFE0F:
        return _printable_or_empty(code - 0xFE00)
    if 0xE0100 <= code <= 0xE01EF:
        return _printable_or_empty(code - 0xE0100 + 16)
    return ""


def _printable_or_empty(code: int) -> str:
    return chr(code) if 32 <= code < 127 else ""
