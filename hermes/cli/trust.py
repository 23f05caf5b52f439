"""`hermes trust`: the folders whose files the person vouches for."""

import os

from hermes.cli.arguments import Parser
from hermes.cli.report import failed
from hermes.config.environment import process_environment
from hermes.config.home import locate_home
from hermes.config.trusted import change_trust, is_trusted, trusted_folders
from hermes.core.errors import HermesError, UsageError
from hermes.util.text import visible


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
    given = parser.read(arguments)
    try:
        home = locate_home(process_environment())
        if given.listed:
            for folder in (folders := trusted_folders(home.trust_file)):
                print(visible(folder))
            if not folders:
                print("No folder is trusted yet. `hermes trust FOLDER` vouches for one.")
            return 0
        if not given.remove and not os.path.isdir(os.path.expanduser(given.folder)):
            raise UsageError(f"{visible(given.folder)} is not a folder.", "Name the project's folder.")
        home.ensure()
        changed = change_trust(home.trust_file, given.folder, trusted=not given.remove)
        real = visible(os.path.realpath(os.path.expanduser(given.folder)))
        if given.remove:
            inside = is_trusted(os.path.realpath(given.folder), trusted_folders(home.trust_file))
            note = " It lies in a folder that still is." if inside else ""
            print(f"{real} is {'trusted no more' if changed else 'not among the trusted folders'}.{note}")
        else:
            print(f"{real} is trusted{'' if changed else ' already'}, with all below it.")
        return 0
    except HermesError as error:
        return failed(error)
