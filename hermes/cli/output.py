"""What verbs print: JSON where it is asked for, a question before something goes, sizes for people."""

import shutil
import sys

import msgspec

from hermes.app.charts import folded
from hermes.cli.report import complain
from hermes.util.say import say

YES = ("y", "yes", "是", "好")


def print_json(value: object) -> None:
    """The value as indented JSON on standard output."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")


def agreed(question: str, *, yes: bool, what: str) -> bool | None:
    """Whether the person agrees, at once with `yes`. None where nobody can be asked, which is said with what helps.

    `what` begins that sentence, such as "Deleting".
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        complain(say("{what} needs a yes: add --yes.", what=what))
        return None
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in YES


def on_lines(text: str) -> str:
    """The text with lines that a terminal would cut within words broken at spaces; as it is where no terminal is."""
    if not sys.stdout.isatty():
        return text
    columns = shutil.get_terminal_size((80, 24)).columns
    return "\n".join(part for line in text.split("\n") for part in folded(line, columns))


def size(count: int) -> str:
    """Bytes in few characters: 812 B, 1.4 MB."""
    value, units = float(count), ("B", "kB", "MB", "GB", "TB")
    for unit in units:
        if value < 1000 or unit == units[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError
