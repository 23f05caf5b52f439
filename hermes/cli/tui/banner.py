"""Print the first lines of a chat, before anything heavy is imported."""

import sys

from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters


def show_banner(version: str, folder: str, home: str, *, colours: bool) -> None:
    """Print the version, the working folder, and the three keys to know."""
    place = f"~{folder.removeprefix(home)}" if home and (folder == home or folder.startswith(f"{home}/")) else folder
    bold, dim, end = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if colours else ("", "", "")
    hint = tr("/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves")
    sys.stdout.write(f"\n  {bold}☤ Hermes {version}{end}  {escape_unseen_characters(place)}\n  {dim}{hint}{end}\n\n")
    sys.stdout.flush()
