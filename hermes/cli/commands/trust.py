"""`hermes trust`: manage the folders whose files the person trusts."""

import asyncio
import os
import sys
from collections.abc import Sequence

from hermes.admin.trust import trust_files
from hermes.cli.output import print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.config.home import HermesHome, locate_home
from hermes.config.trusted_folders import check_trust_scope, is_trusted, read_trusted_folders, set_trust
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import N_, localize, tr
from hermes.util.text import escape_confusable_characters

_INSIST_PHRASE = "all of it"


def run(arguments: list[str]) -> int:
    """Trust a folder, take trust back, or list what is trusted."""
    parser = CommandParser(
        prog="hermes trust",
        description="Trust a project's folder: its files count as yours, and its contents may take effect.",
        epilog="example: hermes trust .     hermes trust --remove ~/old     hermes trust --list",
    )
    parser.add_argument("folder", nargs="?", default=".", help="the folder, with all below it (default: this one)")
    parser.add_argument("--remove", action="store_true", help="trust it no more")
    parser.add_argument("--list", action="store_true", dest="listed", help="show the trusted folders")
    parser.add_argument("--json", action="store_true", dest="as_json", help="list as JSON")
    parser.add_argument("--all-of-it", action="store_true", help="also your home as a whole, or what contains it")
    args = parser.parse_arguments(arguments)
    try:
        home = locate_home(copy_environment())
        if args.listed or args.as_json:
            return _print_folders(read_trusted_folders(home.trust_file), as_json=args.as_json)
        if not args.remove and not os.path.isdir(os.path.expanduser(args.folder)):
            raise UsageError(
                f"{escape_confusable_characters(args.folder)} is not a folder.", "Name the project's folder."
            )
        if not args.remove:
            _check_scope(args.folder, all_of_it=args.all_of_it)
        home.ensure_exists()
        print(_change_trust(home, args.folder, trusted=not args.remove))
        return 0
    except HermesError as error:
        return report_failure(error)


def _print_folders(folders: Sequence[str], *, as_json: bool) -> int:
    if as_json:
        print_json(folders)
        return 0
    for folder in folders:
        print(escape_confusable_characters(folder))
    if not folders:
        print(tr("No folder is trusted yet. `hermes trust FOLDER` trusts one."))
    return 0


def _change_trust(home: HermesHome, folder: str, *, trusted: bool) -> str:
    """Trust a folder or no longer trust it, and return the message for the person."""
    changed = set_trust(home.trust_file, folder, trusted=trusted)
    path = os.path.realpath(os.path.expanduser(folder))
    real = escape_confusable_characters(path)
    if not trusted:
        inside = is_trusted(path, read_trusted_folders(home.trust_file))
        note = (" " + tr("It lies in a folder that still is.")) if inside else ""
        return tr(
            "{real} is {changed}.{note}",
            real=real,
            changed=tr("trusted no more") if changed else tr("not among the trusted folders"),
            note=note,
        )
    files = asyncio.run(trust_files(home, path))
    note = (
        (
            " "
            + tr("Files in it that were written alongside untrusted content count as yours now: {files}.", files=files)
        )
        if files
        else ""
    )
    now = tr("{real} is trusted, with all below it.", real=real)
    before = tr("{real} is trusted already, with all below it.", real=real)
    return (now if changed else before) + note


def _check_scope(folder: str, *, all_of_it: bool) -> None:
    """Refuse trust for system folders, and for the whole home folder unless the person insists. Raises UsageError."""
    why, may_insist = check_trust_scope(folder, copy_environment().get("HOME") or os.path.expanduser("~"))
    if not why or (may_insist and all_of_it):
        return
    real = escape_confusable_characters(os.path.realpath(os.path.expanduser(folder)))
    if may_insist and sys.stdin.isatty() and sys.stderr.isatty():
        message = tr("Type `{words}` to trust it all the same:", words=_INSIST_PHRASE)
        print(f"{real}: {localize(why)}.\n{message} ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() == _INSIST_PHRASE:
            return
    option = _INSIST_PHRASE.replace(" ", "-")
    insist = N_("Name the project's folder, or insist with --{option}.", option=option)
    hint = insist if may_insist else "Name the project's folder."
    raise UsageError(f"{real} is not trusted: {why}.", hint)
