"""Take over what was typed before the chat was drawn: whole lines that wait in the terminal, each ended by Enter."""

import os
import select
import termios

from prompt_toolkit.input.base import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress

_MAX_BYTES = 65_536


def take_typed_lines(source: Input) -> None:
    """Give the lines that were typed so far to the chat as they were meant.

    Until the terminal is in raw mode it turns Enter into a newline, which the input line takes for one.
    Called before raw mode begins; the beginning of a line that is not ended yet stays in the terminal and
    comes by itself.
    """
    descriptor = source.fileno()
    try:
        if not termios.tcgetattr(descriptor)[3] & termios.ICANON:
            return
        typed = b""
        while len(typed) < _MAX_BYTES and select.select([descriptor], [], [], 0)[0]:
            line = os.read(descriptor, _MAX_BYTES)
            typed += line.replace(b"\n", b"\r") or b"\x04"
            if not line:
                break  # Ctrl-D at the beginning of a line
    except (termios.error, OSError):
        return
    presses: list[KeyPress] = []
    parser = Vt100Parser(presses.append)
    parser.feed_and_flush(typed.decode("utf-8", "replace"))
    store_typeahead(source, presses)
