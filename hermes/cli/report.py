"""Says on standard error what went wrong: one line, no traceback."""

import sys

from hermes.core.errors import HermesError
from hermes.util.say import joined, translated
from hermes.util.text import escaped


def complain(text: str) -> None:
    """One line on standard error, in the person's language; nothing in it that a terminal would obey or that hides."""
    print("hermes: " + escaped(" ".join(translated(text).split())), file=sys.stderr)


def explained(error: HermesError) -> str:
    """What an error says, in the person's language."""
    return joined(translated(error.message), translated(error.hint))


def failed(error: HermesError) -> int:
    """Show an error and give its exit code."""
    complain(explained(error))
    return error.exit_code
