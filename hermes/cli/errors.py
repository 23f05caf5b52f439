"""Print errors on standard error: one line each, no traceback."""

import sys

from hermes.core.errors import HermesError
from hermes.i18n.messages import join_sentences, localize, tr
from hermes.util.text import escape_unseen_characters


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
