"""The note that is frozen into a user message when it is appended: time and working folder, where they are new."""

import time

from hermes.core.messages import PROGRAM
from hermes.core.parts import TextPart
from hermes.safety.fencing import reveal_hidden_text, show_control_characters
from hermes.util.text import to_one_line

MOVED_SECONDS = 600.0
"""The time is given again when so many seconds have passed since it was last given."""

_PATH = 1_000


def build_turn_note(now: float, *, cwd: str, last_told: float | None, last_cwd: str | None) -> TextPart | None:
    """Build a note with the date, time and zone, and with the working folder when it is new; None when nothing is new.

    `last_told` is when a note was last given in this session (None: never), in seconds since the epoch.
    """
    told = []
    if last_told is None or abs(now - last_told) >= MOVED_SECONDS:
        local = time.localtime(now)
        told.append(time.strftime("%A %Y-%m-%d %H:%M %Z (UTC%z)", local))
    if cwd != last_cwd:
        name = reveal_hidden_text(show_control_characters(cwd)).text  # whoever packed an archive may have named it
        told.append(f"working folder {to_one_line(name, _PATH)}")
    if not told:
        return None
    return TextPart(text=f"[Now: {'; '.join(told)}]", provenance=PROGRAM)
