"""`hermes profile`: several homes beside each other."""

import argparse

from hermes.admin.profiles import ProfileAdmin
from hermes.cli.arguments import Parser
from hermes.cli.errors import complain, failed
from hermes.cli.output import agreed, print_json
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import say, say_many
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped


def run(arguments: list[str]) -> int:
    """Parse and run one of the verbs."""
    given = _parser().read(arguments)
    try:
        return _run(ProfileAdmin(process_environment()), given)
    except HermesError as error:
        return failed(error)


def _parser() -> Parser:
    made = Parser(
        prog="hermes profile",
        description=say(
            "Profiles are homes of their own: settings, keys, memories, skills and sessions of one are not seen by "
            "another. `-p NAME` uses one for a single command."
        ),
        epilog="example: hermes profile clone work && hermes -p work",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    told = {
        "list": say("every profile (also without a verb)"),
        "create": say("make an empty one"),
        "clone": say("make one with the settings, skills and memories of another; never with its sessions"),
        "use": say("use it from now on"),
        "show": say("what is in one; without a name in the one in use"),
        "rename": say("give one another name"),
        "delete": say("delete one with everything in it"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in told.items()}
    for parser in parsers.values():
        parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    for verb in ("create", "clone", "use", "rename", "delete"):
        parsers[verb].add_argument("name", help=say("the profile"))
    parsers["show"].add_argument("name", nargs="?", default="", help=say("the profile"))
    parsers["rename"].add_argument("new", metavar="NEW-NAME", help=say("its new name"))
    clone = parsers["clone"]
    clone.add_argument("--from", dest="source", default="", metavar="NAME", help=say("of which one (the one in use)"))
    keys = clone.add_mutually_exclusive_group()
    keys.add_argument("--keys", action="store_true", default=None, help=say("with its keys, without a question"))
    keys.add_argument("--no-keys", action="store_false", dest="keys", help=say("without its keys"))
    parsers["delete"].add_argument("-y", "--yes", action="store_true", help=say("do not ask"))
    return made


def _run(desk: ProfileAdmin, given: argparse.Namespace) -> int:
    as_json = getattr(given, "as_json", False)
    match given.verb:
        case None | "list":
            _list(desk, as_json=as_json)
            return 0
        case "show":
            row = desk.show_profile(given.name)
            print_json(row) if as_json else _show(row)
            return 0
        case "clone":
            row = desk.clone_profile(given.name, given.source, keys=_with_keys(desk, given))
            said = say("The profile {name} is made. Use it with -p {name}.", name=given.name)
        case "create":
            row = desk.create_profile(given.name)
            said = say("The profile {name} is made. Use it with -p {name}.", name=given.name)
        case "use":
            row = desk.set_default(given.name)
            said = say("The profile {name} is used from now on.", name=given.name)
        case "rename":
            row = desk.rename_profile(given.name, given.new)
            said = say("The profile {name} is called {new} now.", name=given.name, new=given.new)
        case _:
            return _delete(desk, given)
    print_json(row) if as_json else print(escaped(said))
    _tell_overruled(desk)
    return 0


def _list(desk: ProfileAdmin, *, as_json: bool) -> None:
    rows = desk.list_profiles()
    if as_json:
        print_json(rows)
        return
    for row in rows:
        mark = "*" if row["in_use"] else " "
        print(escaped(f"{mark} {row['name']:<20} {row['folder']}"))
    _tell_overruled(desk)


def _show(row: Plain) -> None:
    print(escaped(f"{row['name'] or say('(no profile)')}  {row['folder']}"))
    memories = row["memories"]
    assert isinstance(memories, list)
    print("  " + (say("settings: config.yaml") if row["config"] else say("settings: none of its own")))
    print("  " + (say("keys: yes") if row["keys"] else say("keys: none")))
    print("  " + say_many("{n} skill of its own", "{n} skills of its own", int(str(row["skills"]))))
    print("  " + say("memories: {names}", names=escaped(", ".join(memories)) or say("none")))
    print("  " + say_many("{n} backup", "{n} backups", int(str(row["backups"]))))


def _with_keys(desk: ProfileAdmin, given: argparse.Namespace) -> bool:
    """Whether a clone gets the keys: as was said, or as the person answers; without anybody to ask it does not."""
    if given.keys is not None or not desk.has_keys(given.source):
        return bool(given.keys)
    import sys

    if not sys.stdin.isatty():
        complain(say("The keys are not taken along; --keys does that."))
        return False
    return bool(agreed(say("Take the keys along, too?"), yes=False, what=""))


def _delete(desk: ProfileAdmin, given: argparse.Namespace) -> int:
    row = desk.show_profile(given.name)
    about = say("Delete the profile {name} with all its sessions and memories?", name=row["name"])
    answer = agreed(f"{escaped(str(row['folder']))}\n{about}", yes=given.yes, what=say("Deleting"))
    if answer is not True:
        return 1 if answer is False else 2
    row = desk.delete_profile(given.name)
    print_json(row) if given.as_json else print(say("The profile {name} is deleted.", name=row["name"]))
    return 0


def _tell_overruled(desk: ProfileAdmin) -> None:
    if desk.home_override:
        complain(say("HERMES_HOME is set to {folder} and comes before every profile.", folder=desk.home_override))
