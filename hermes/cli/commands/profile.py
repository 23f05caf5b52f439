"""`hermes profile`: manage profiles, which are homes of their own.

`hermes home`: show the home folder, or agree to share it with another program.
"""

import argparse
import asyncio

from hermes.admin.profiles import ProfileAdmin
from hermes.cli.output import confirm_action, print_error, print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr, tr_plural
from hermes.sessions.app import share_home
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_unseen_characters


def run(arguments: list[str]) -> int:
    """Parse the arguments and run one of the verbs."""
    args = _build_parser().parse_arguments(arguments)
    try:
        return _run_verb(ProfileAdmin(copy_environment()), args)
    except HermesError as error:
        return report_failure(error)


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes profile",
        description=tr(
            "Profiles are homes of their own: settings, keys, memories, skills and sessions of one are not seen by "
            "another. `-p NAME` uses one for a single command."
        ),
        epilog="example: hermes profile clone work && hermes -p work",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    verb_help = {
        "list": tr("every profile (also without a verb)"),
        "create": tr("make an empty one"),
        "clone": tr("make one with the settings, skills and memories of another; never with its sessions"),
        "use": tr("use it from now on"),
        "show": tr("what is in one; without a name in the one in use"),
        "rename": tr("give one another name"),
        "delete": tr("delete one with everything in it"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in verb_help.items()}
    for parser in parsers.values():
        parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    for verb in ("create", "clone", "use", "rename", "delete"):
        parsers[verb].add_argument("name", help=tr("the profile"))
    parsers["show"].add_argument("name", nargs="?", default="", help=tr("the profile"))
    parsers["rename"].add_argument("new", metavar="NEW-NAME", help=tr("its new name"))
    clone = parsers["clone"]
    clone.add_argument("--from", dest="source", default="", metavar="NAME", help=tr("of which one (the one in use)"))
    keys = clone.add_mutually_exclusive_group()
    keys.add_argument("--keys", action="store_true", default=None, help=tr("with its keys, without a question"))
    keys.add_argument("--no-keys", action="store_false", dest="keys", help=tr("without its keys"))
    parsers["delete"].add_argument("-y", "--yes", action="store_true", help=tr("do not ask"))
    return made


def _run_verb(profiles: ProfileAdmin, args: argparse.Namespace) -> int:
    as_json = getattr(args, "as_json", False)
    match args.verb:
        case None | "list":
            _print_profiles(profiles, as_json=as_json)
            return 0
        case "show":
            row = profiles.show_profile(args.name)
            print_json(row) if as_json else _print_profile(row)
            return 0
        case "clone":
            row = profiles.clone_profile(args.name, args.source, keys=_should_clone_keys(profiles, args))
            said = tr("The profile {name} is made. Use it with -p {name}.", name=args.name)
        case "create":
            row = profiles.create_profile(args.name)
            said = tr("The profile {name} is made. Use it with -p {name}.", name=args.name)
        case "use":
            row = profiles.set_default(args.name)
            said = tr("The profile {name} is used from now on.", name=args.name)
        case "rename":
            row = profiles.rename_profile(args.name, args.new)
            said = tr("The profile {name} is called {new} now.", name=args.name, new=args.new)
        case _:
            return _delete_profile(profiles, args)
    print_json(row) if as_json else print(escape_unseen_characters(said))
    _warn_overruled(profiles)
    return 0


def _print_profiles(profiles: ProfileAdmin, *, as_json: bool) -> None:
    rows = profiles.list_profiles()
    if as_json:
        print_json(rows)
        return
    for row in rows:
        mark = "*" if row["in_use"] else " "
        print(escape_unseen_characters(f"{mark} {row['name']:<20} {row['folder']}"))
    _warn_overruled(profiles)


def _print_profile(row: Plain) -> None:
    print(escape_unseen_characters(f"{row['name'] or tr('(no profile)')}  {row['folder']}"))
    memories = row["memories"]
    assert isinstance(memories, list)
    print("  " + (tr("settings: config.yaml") if row["config"] else tr("settings: none of its own")))
    print("  " + (tr("keys: yes") if row["keys"] else tr("keys: none")))
    print("  " + tr_plural("{n} skill of its own", "{n} skills of its own", int(str(row["skills"]))))
    print("  " + tr("memories: {names}", names=escape_unseen_characters(", ".join(memories)) or tr("none")))
    print("  " + tr_plural("{n} backup", "{n} backups", int(str(row["backups"]))))


def _should_clone_keys(profiles: ProfileAdmin, args: argparse.Namespace) -> bool:
    """Return whether a clone gets the keys: as the options say, or as the person answers; without anybody to ask it
    does not.
    """
    if args.keys is not None or not profiles.has_keys(args.source):
        return bool(args.keys)
    import sys

    if not sys.stdin.isatty():
        print_error(tr("The keys are not taken along; --keys does that."))
        return False
    return bool(confirm_action(tr("Take the keys along, too?"), yes=False, what=""))


def _delete_profile(profiles: ProfileAdmin, args: argparse.Namespace) -> int:
    row = profiles.show_profile(args.name)
    about = tr("Delete the profile {name} with all its sessions and memories?", name=row["name"])
    answer = confirm_action(
        f"{escape_unseen_characters(str(row['folder']))}\n{about}", yes=args.yes, what=tr("Deleting")
    )
    if answer is not True:
        return 1 if answer is False else 2
    row = profiles.delete_profile(args.name)
    print_json(row) if args.as_json else print(tr("The profile {name} is deleted.", name=row["name"]))
    return 0


def _warn_overruled(profiles: ProfileAdmin) -> None:
    if profiles.home_override:
        print_error(tr("HERMES_HOME is set to {folder} and comes before every profile.", folder=profiles.home_override))


def run_home(arguments: list[str]) -> int:
    """Show the home, or agree to share it."""
    parser = CommandParser(
        prog="hermes home",
        description="Show the home folder. `share` agrees that Hermes keeps its own files beside another program's.",
        epilog="example: hermes home share",
    )
    parser.add_argument("action", nargs="?", choices=["show", "share"], default="show")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    args = parser.parse_arguments(arguments)
    environ = copy_environment()
    try:
        home = locate_home(environ)
        if args.action == "share":
            asyncio.run(share_home(environ))
            message = "Hermes now keeps hermes.db and search.db in {root}; nothing else there was touched."
            print(tr(message, root=home.root))
            return 0
        other = home.find_foreign_file()
        if args.as_json:
            print_json({"home": str(home.root), "shared_with": other})
            return 0
        print(home.root)
        if other:
            message = "Another program keeps its state here too ({other}). `hermes home share` agrees to that."
            print(tr(message, other=other))
        return 0
    except HermesError as error:
        return report_failure(error)
