"""What is frozen into a user's message when it is appended: where and when it was said, if that is news."""

import time

from hermes.core.messages import PROGRAM
from hermes.core.parts import TextPart
from hermes.safety.fencing import inert, visible
from hermes.util.text import one_line

MOVED_SECONDS = 600.0
"""Time is told again when it has moved by this much since it was last told."""

_PATH = 1_000


def turn_note(now: float, *, cwd: str, last_told: float | None, last_cwd: str | None) -> TextPart | None:
    """A note with the date, time and zone, and with the working folder when it is new; None when nothing is news.

    `last_told` is when a note was last given in this session (None: never), in seconds since the epoch.
    """
    told = []
    if last_told is None or abs(now - last_told) >= MOVED_SECONDS:
        local = time.localtime(now)
        told.append(time.strftime("%A %Y-%m-%d %H:%M %Z (UTC%z)", local))
    if cwd != last_cwd:
        name = visible(inert(cwd)).text  # whoever packed an archive may have named it
        told.append(f"working folder {one_line(name, _PATH)}")
    if not told:
        return None
    return TextPart(text=f"[Now: {'; '.join(told)}]", provenance=PROGRAM)
