"""`hermes people`: manage who may talk with the agent from chats."""

import argparse
import asyncio

from hermes.admin.people.admin import PeopleAdmin, open_people_admin
from hermes.cli.errors import report_failure
from hermes.cli.output import confirm_action, print_json
from hermes.cli.parser import CommandParser
from hermes.commands.views.people import format_person
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters


def run(arguments: list[str]) -> int:
    """Parse the arguments and run one of the verbs."""
    args = _build_parser().parse_arguments(arguments)
    try:
        return asyncio.run(_run_verb(args))
    except HermesError as error:
        return report_failure(error)


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes people",
        description=tr(
            "Who may talk with the agent from chats, by which accounts, and as what. The owner is one person"
            " everywhere, at this terminal too. What is changed counts from their next message on."
        ),
        epilog="example: hermes people link owner telegram 12345678",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    verb_help = {
        "list": tr("everybody who is known (also without a verb)"),
        "show": tr("one person, with what they may do"),
        "add": tr("add somebody, who has no account yet"),
        "rename": tr("call somebody so"),
        "role": tr("let somebody be an admin, a user or a guest"),
        "link": tr("let an account on a platform be somebody's"),
        "unlink": tr("let an account be nobody's"),
        "remove": tr("know somebody no more"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in verb_help.items()}
    for verb in ("show", "add", "rename", "role", "link", "remove"):
        parsers[verb].add_argument("person", help=tr("their id, or their name"))
    parsers["add"].add_argument("--name", default="", help=tr("what they are called"))
    parsers["add"].add_argument("--role", default="user", help=tr("admin, user (the default) or guest"))
    parsers["rename"].add_argument("name", help=tr("what they are called"))
    parsers["role"].add_argument("role", help=tr("admin, user or guest"))
    for verb in ("link", "unlink"):
        parsers[verb].add_argument("platform", help=tr("an account of Hermes', as `platforms:` names it"))
        parsers[verb].add_argument("account", help=tr("the platform's own id of their account"))
    parsers["remove"].add_argument("--yes", action="store_true", help=tr("do not ask"))
    for parser in parsers.values():
        parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    return made


async def _run_verb(args: argparse.Namespace) -> int:
    async with open_people_admin(copy_environment()) as admin:
        match args.verb:
            case "remove":
                return await _remove_person(admin, args)
            case "unlink":
                rows = [await admin.find_person(await admin.unlink_account(args.platform, args.account))]
            case "show" | "add" | "rename" | "role" | "link":
                rows = [await _change_person(admin, args)]
            case _:
                rows = await admin.list_people()
    if getattr(args, "as_json", False):
        print_json(rows if args.verb in (None, "list") else rows[0])
    else:
        print("\n".join(line for row in rows for line in format_person(row)))
    return 0


async def _change_person(admin: PeopleAdmin, args: argparse.Namespace) -> dict[str, object]:
    match args.verb:
        case "add":
            return await admin.add_person(args.person, name=args.name, role=args.role)
        case "rename":
            return await admin.rename_person(args.person, args.name)
        case "role":
            return await admin.set_role(args.person, args.role)
        case "link":
            return await admin.link_account(args.person, args.platform, args.account)
        case _:
            return await admin.find_person(args.person)


async def _remove_person(admin: PeopleAdmin, args: argparse.Namespace) -> int:
    name = escape_unseen_characters(await admin.find_removable_person(args.person))
    question = tr("Know {name} no more? They get no answer then.", name=name)
    yes = confirm_action(question, yes=args.yes, what=tr("Removing somebody"))
    if not yes:
        return 2 if yes is None else 1
    removed = await admin.remove_person(args.person)
    if args.as_json:
        print_json({"removed": removed})
    else:
        print(tr("{name} is not known any more.", name=escape_unseen_characters(removed)))
    return 0
