"""Says on standard error what went wrong: one line, no traceback."""

import sys

from hermes.core.errors import HermesError
from hermes.i18n.messages import joined, say, translated
from hermes.util.text import escaped


def complain(text: str) -> None:
    """One line on standard error, in the person's language; nothing in it that a terminal would obey or that hides."""
    print("hermes: " + escaped(" ".join(translated(text).split())), file=sys.stderr)


def explained(error: HermesError) -> str:
    """What an error says, in the person's language."""
    return joined(translated(error.message), translated(error.hint))


def elsewhere_line() -> str:
    """What is said of a session that lives in another process."""
    return say("This session is open in another process; you take part in it: what is said there is shown here.")


def failed(error: HermesError) -> int:
    """Show an error and give its exit code."""
    complain(explained(error))
    return error.exit_code
