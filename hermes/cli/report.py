"""Says on standard error what went wrong: one line, no traceback."""

import sys

from hermes.core.errors import HermesError


def complain(text: str) -> None:
    """One line on standard error."""
    print("hermes: " + " ".join(text.split()), file=sys.stderr)


def failed(error: HermesError) -> int:
    """Show an error and give its exit code."""
    complain(str(error))
    return error.exit_code
