"""Says on standard error what went wrong: one line, no traceback."""

import sys

from hermes.core.errors import HermesError
from hermes.util.text import escaped


def complain(text: str) -> None:
    """One line on standard error; what a terminal would obey, or a person not see, is written out."""
    print("hermes: " + escaped(" ".join(text.split())), file=sys.stderr)


def failed(error: HermesError) -> int:
    """Show an error and give its exit code."""
    complain(str(error))
    return error.exit_code
