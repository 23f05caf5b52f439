"""`hermes trust`: the folders whose files the person vouches for."""

import asyncio
import os
import sys
from collections.abc import Sequence

from hermes.admin.trust import trust_files
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.cli.output import print_json
from hermes.config.environment import process_environment
from hermes.config.home import Home, locate_home
from hermes.config.trusted import change_trust, is_trusted, too_wide, trusted_folders
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import phrase, say, translated
from hermes.util.text import visible

_ALL = "all of it"


def run(arguments: list[str]) -> int:
    """Trust a folder, take trust back, or list what is trusted."""
    parser = Parser(
        prog="hermes trust",
        description="Vouch for a project's folder: its files' text counts as yours, and what it brings may act.",
        epilog="example: hermes trust .     hermes trust --remove ~/old     hermes trust --list",
    )
    parser.add_argument("folder", nargs="?", default=".", help="the folder, with all below it (default: this one)")
    parser.add_argument("--remove", action="store_true", help="trust it no more")
    parser.add_argument("--list", action="store_true", dest="listed", help="show the trusted folders")
    parser.add_argument("--json", action="store_true", dest="as_json", help="list as JSON")
    parser.add_argument("--all-of-it", action="store_true", help="also your home as a whole, or what contains it")
    given = parser.read(arguments)
    try:
        home = locate_home(process_environment())
        if given.listed or given.as_json:
            return _list(trusted_folders(home.trust_file), as_json=given.as_json)
        if not given.remove and not os.path.isdir(os.path.expanduser(given.folder)):
            raise UsageError(f"{visible(given.folder)} is not a folder.", "Name the project's folder.")
        if not given.remove:
            _check_width(given.folder, all_of_it=given.all_of_it)
        home.ensure()
        print(_changed(home, given.folder, trusted=not given.remove))
        return 0
    except HermesError as error:
        return failed(error)


def _list(folders: Sequence[str], *, as_json: bool) -> int:
    if as_json:
        print_json(folders)
        return 0
    for folder in folders:
        print(visible(folder))
    if not folders:
        print(say("No folder is trusted yet. `hermes trust FOLDER` vouches for one."))
    return 0


def _changed(home: Home, folder: str, *, trusted: bool) -> str:
    """Vouch for a folder or no more; what there is to say."""
    changed = change_trust(home.trust_file, folder, trusted=trusted)
    path = os.path.realpath(os.path.expanduser(folder))
    real = visible(path)
    if not trusted:
        inside = is_trusted(path, trusted_folders(home.trust_file))
        note = (" " + say("It lies in a folder that still is.")) if inside else ""
        return say(
            "{real} is {changed}.{note}",
            real=real,
            changed=say("trusted no more") if changed else say("not among the trusted folders"),
            note=note,
        )
    files = asyncio.run(trust_files(home, path))
    note = (
        (" " + say("Files in it that were written beside strangers' words count as yours now: {files}.", files=files))
        if files
        else ""
    )
    now = say("{real} is trusted, with all below it.", real=real)
    before = say("{real} is trusted already, with all below it.", real=real)
    return (now if changed else before) + note


def _check_width(folder: str, *, all_of_it: bool) -> None:
    """Let nobody vouch for the system, nor by the way for all that they have. Raises UsageError."""
    why, may_insist = too_wide(folder, process_environment().get("HOME") or os.path.expanduser("~"))
    if not why or (may_insist and all_of_it):
        return
    real = visible(os.path.realpath(os.path.expanduser(folder)))
    if may_insist and sys.stdin.isatty() and sys.stderr.isatty():
        told = say("Type `{words}` to trust it all the same:", words=_ALL)
        print(f"{real}: {translated(why)}.\n{told} ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() == _ALL:
            return
    option = _ALL.replace(" ", "-")
    insist = phrase("Name the project's folder, or insist with --{option}.", option=option)
    hint = insist if may_insist else "Name the project's folder."
    raise UsageError(f"{real} is not trusted: {why}.", hint)
