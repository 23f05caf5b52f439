"""Output shared by the commands: JSON, and text wrapped for the terminal.

Print errors on standard error: one line each, no traceback.
"""

import re
import sys

import msgspec

from hermes.core.encoding import to_json
from hermes.core.errors import HermesError
from hermes.i18n.messages import join_sentences, localize, tr
from hermes.util.text import escape_unseen_characters

EXIT_INTERRUPTED = 130
YES_ANSWERS = ("y", "yes", "是", "好")
"""Answers that count as a yes."""
NO_ANSWERS = ("n", "no", "否", "不")
_WORD_PATTERN = r"\n|[^\S\n]|[\u2e80-\u9fff\uff00-\uffef]|[^\s\u2e80-\u9fff\uff00-\uffef]+"
_INCOMPLETE_WORD = r"[^\s\u2e80-\u9fff\uff00-\uffef]+"  # compiling it takes a while, and few commands wrap text


def print_error(text: str) -> None:
    """Print one line on standard error, in the person's language, with control and hidden characters escaped."""
    print("hermes: " + escape_unseen_characters(" ".join(localize(text).split())), file=sys.stderr)


def format_error(error: HermesError) -> str:
    """Return an error's message and hint in the person's language."""
    return join_sentences(localize(error.message), localize(error.hint))


def format_remote_notice() -> str:
    """Return the notice that a session is open in another process and that this one takes part in it."""
    return tr("This session is open in another process; you take part in it: what is said there is shown here.")


def report_failure(error: HermesError) -> int:
    """Print an error and return its exit code."""
    print_error(format_error(error))
    return error.exit_code


def print_json(value: object) -> None:
    """Print the value as indented JSON on standard output."""
    sys.stdout.write(msgspec.json.format(to_json(value)).decode() + "\n")


def wrap_for_terminal(text: str) -> str:
    """Break lines at spaces where the terminal would cut them within words. The text is unchanged where standard
    output is no terminal.
    """
    if not sys.stdout.isatty():
        return text
    import shutil  # it brings archives along, and most commands wrap nothing

    from hermes.markup.cells import fold_line

    columns = shutil.get_terminal_size((80, 24)).columns
    return "\n".join(part for line in text.split("\n") for part in fold_line(line, columns))


class StreamingWrapper:
    """Wraps text that arrives in pieces at spaces to the terminal's width. The last word is held back until it is
    whole.
    """

    def __init__(self) -> None:
        self._at = 0
        self._word = ""

    def feed_text(self, text: str) -> str:
        """Add text and return what can be written now."""
        shown = ""
        pieces = re.findall(_WORD_PATTERN, self._word + text)
        self._word = pieces.pop() if pieces and re.fullmatch(_INCOMPLETE_WORD, pieces[-1]) else ""
        for piece in pieces:
            shown += self._place_word(piece)
        return shown

    def flush_text(self) -> str:
        """Return the text that was held back; what follows begins a new line."""
        shown = self._place_word(self._word) if self._word else ""
        self._at, self._word = 0, ""
        return shown

    def _place_word(self, piece: str) -> str:
        import shutil

        from hermes.markup.cells import measure_width

        columns = shutil.get_terminal_size((80, 24)).columns
        if piece == "\n":
            self._at = 0
            return piece
        size = measure_width(piece)
        if not self._at or self._at + size <= columns:
            self._at += size
            return piece
        self._at = 0 if piece.isspace() else size
        return "\n" if piece.isspace() else f"\n{piece}"
