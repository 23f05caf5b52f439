"""The first lines of a chat, written before anything heavy is imported."""

import sys

from hermes.i18n.messages import say
from hermes.util.text import escaped


def show(version: str, folder: str, home: str, *, colours: bool) -> None:
    """Write who this is, where it works, and the three things to know."""
    place = f"~{folder.removeprefix(home)}" if home and (folder == home or folder.startswith(f"{home}/")) else folder
    bold, dim, end = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if colours else ("", "", "")
    hint = say("/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves")
    sys.stdout.write(f"\n  {bold}☤ Hermes {version}{end}  {escaped(place)}\n  {dim}{hint}{end}\n\n")
    sys.stdout.flush()
