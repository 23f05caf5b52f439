"""Text from strangers: between marks that it cannot forge, with nothing in it that cannot be seen.

Nothing is dropped that says something: invisible text is shown, characters that only disturb are taken out and counted.
"""

import hmac
import os
import re

from msgspec import Struct

from hermes.core.parts import Provenance, Source

TAG = "untrusted"
_LABEL = 300
_SGR = re.compile("\x1b\\[[0-9;:]{0,40}m")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_RETURN = re.compile("\r\n?")
_ODD = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff9-\ufffb\U000e0000-\U000e007f\U000e0100-\U000e01ef]+"
)
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS = frozenset("\u200c\u200d")
_EMOJI = frozenset({"\u200d", "\ufe0f\u200d", "\ufe0e\u200d"})
"""What joins several emoji to one."""
_FLAG = "\U0001f3f4"
_MARKS = re.compile(r"[<\uff1c\u2039\u3008]([\s/\uff0f]{0,8})(?=untrusted)", re.IGNORECASE)
_CONTROL_TOKEN = re.compile(r"<\|(?=\w{1,40}\|>)|<\uff5c(?=[\w\u2581]{1,40}\uff5c>)")


_KEY = os.urandom(16)
"""With it the same text has the same id, so that a result that comes again is seen to be the same, and nobody outside
of this process can tell it beforehand."""


class Shown(Struct, frozen=True):
    """A text in which all can be seen: how many characters were taken out, and how many were spelled out."""

    text: str
    removed: int = 0
    revealed: int = 0

    @property
    def note(self) -> str:
        """What was done, for whoever reads it; empty when nothing was."""
        said = [f"{self.removed} invisible characters taken out"] if self.removed else []
        said += [f"{self.revealed} shown in another way"] if self.revealed else []
        return "; ".join(said)


def fence(text: str, provenance: Provenance) -> str:
    """The text between an opening and a closing mark with an id that the text cannot know.

    What looks like such a mark inside is defused, as are a chat template's control tokens. A file's text stays as it is
    otherwise, so that it can be edited by what is shown of it.
    """
    seen = Shown(text) if provenance.source is Source.FILE else visible(inert(text))
    inner = seen.text
    if "ntrusted" in inner.lower():
        inner = _MARKS.sub(lambda match: f"‹{match[1]}", inner)
    if "<|" in inner or "<\uff5c" in inner:
        inner = _CONTROL_TOKEN.sub("‹|", inner)
    identity = hmac.new(_KEY, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:10]
    label = re.sub(r'[\s"<>]+', " ", visible(inert(provenance.label)).text)[:_LABEL]
    origin = f' from="{label}"' if label else ""
    note = f"\n[{seen.note}]" if seen.note else ""
    return f'<{TAG} source="{provenance.source}"{origin} id="{identity}">\n{inner}\n</{TAG} id="{identity}">{note}'


def inert(text: str) -> str:
    """The text without power over a terminal: colours are taken out, every other control character is shown.

    Tab and line feed stay; a carriage return, which would overwrite what stands before it, begins a line.
    """
    if "\r" in text:
        text = _RETURN.sub("\n", text)
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub(lambda match: _picture(match[0]), _SGR.sub("", text))


def _picture(char: str) -> str:
    code = ord(char)
    if code < 32:
        return chr(0x2400 + code)
    return "␡" if code == 127 else f"\\x{code:02x}"


def visible(text: str) -> Shown:
    """The text with everything invisible taken out or spelled out.

    Joiners within scripts and emoji that need them, single variation selectors and the tags of a flag stay. Tags and
    runs of variation selectors that spell a text are shown as that text; bidirectional controls by their number.
    """
    if text.isascii() or not _ODD.search(text):
        return Shown(text)
    counts = [0, 0]

    def seen(match: re.Match[str]) -> str:
        run = match[0]
        shown = _run(run, text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1])
        kept = sum(char in shown for char in run) if shown else 0
        if "[" in shown or "\\u{" in shown:
            counts[1] += len(run) - kept
        else:
            counts[0] += len(run) - kept
        return shown

    return Shown(_ODD.sub(seen, text), counts[0], counts[1])


def _run(run: str, before: str, after: str) -> str:
    """What stands in the place of a run of invisible characters."""
    flag = before == _FLAG and run.endswith("\U000e007f") and len(run) <= 8
    if flag or (run in _EMOJI and ord(before or "a") > 0x2000):
        return run
    if len(run) == 1:
        return _single(run, before, after)
    spelled = "".join(_spelled(char) for char in run)
    rest = "".join(f"\\u{{{ord(char):x}}}" for char in run if char in _BIDI)
    return (f"[invisible text: {spelled}]" if sum(map(str.isalnum, spelled)) >= 2 else "") + rest


def _single(char: str, before: str, after: str) -> str:
    if char in _BIDI:
        return f"\\u{{{ord(char):x}}}"
    if char in _JOINERS:
        return char if before and after and not (before.isascii() or after.isascii()) else ""
    if "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef":
        return char if before and (not before.isascii() or before in "0123456789#*") else ""
    return ""


def _spelled(char: str) -> str:
    """The character that an invisible one stands for, where it stands for one."""
    code = ord(char)
    if 0xE0020 <= code <= 0xE007E:
        return chr(code - 0xE0000)
    if 0xFE00 <= code <= 0xFE0F:
        return _printable(code - 0xFE00)
    if 0xE0100 <= code <= 0xE01EF:
        return _printable(code - 0xE0100 + 16)
    return ""


def _printable(code: int) -> str:
    return chr(code) if 32 <= code < 127 else ""
