"""`hermes people`: manage who may talk with the agent from chats.

`hermes pairing`: manage the pairing codes by which somebody becomes known to the gateway.

`hermes audit`: show what people did from chats.
"""

import argparse
import asyncio

from hermes.admin.people.admin import PeopleAdmin, open_people_admin
from hermes.cli.output import confirm_action, print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.commands.views.people import format_audit_entry, format_pairing_code, format_person
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr
from hermes.sessions.formats.openai_format import Plain
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


def run_pairing(arguments: list[str]) -> int:
    """Parse the arguments and run_pairing one of the verbs."""
    args = _build_pairing_parser().parse_arguments(arguments)
    try:
        asyncio.run(_run_pairing_verb(args))
    except HermesError as error:
        return report_failure(error)
    return 0


def _build_pairing_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes pairing",
        description=tr(
            "Codes by which somebody becomes known: they send the code to the bot in a direct chat. A code counts once "
            "and for an hour; three may wait for each platform."
        ),
        epilog="example: hermes pairing new --role user --platform telegram",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    verb_help = {
        "new": tr("make a code, which is shown once"),
        "list": tr("the codes that wait (also without a verb)"),
        "revoke": tr("let a code count no more"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in verb_help.items()}
    new = parsers["new"].add_argument
    new("--role", default="user", help=tr("what they become: owner, admin, user (the default) or guest"))
    new("--platform", default="", help=tr("the only account of Hermes' where it counts, as `platforms:` names it"))
    new("--person", default="", metavar="ID", help=tr("who is known already, and gets one more account"))
    new("--name", default="", help=tr("what they are called"))
    parsers["revoke"].add_argument("code", help=tr("its id, as `list` shows it"))
    for parser in parsers.values():
        parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    return made


async def _run_pairing_verb(args: argparse.Namespace) -> None:
    as_json = getattr(args, "as_json", False)
    async with open_people_admin(copy_environment()) as admin:
        match args.verb:
            case "new":
                code = await admin.create_code(args.role, platform=args.platform, name=args.name, person_id=args.person)
                if as_json:
                    print_json({"code": code})
                    return
                print(code)
                print(tr("They send it to the bot in a direct chat, within an hour. It is not shown again."))
            case "revoke":
                await admin.revoke_code(args.code)
                if as_json:
                    print_json({"revoked": args.code})
                else:
                    print(tr("The code counts no more."))
            case _:
                rows = await admin.list_codes()
                if as_json:
                    print_json(rows)
                else:
                    print("\n".join(map(format_pairing_code, rows)) or tr("No code waits."))


def run_audit(arguments: list[str]) -> int:
    """Print what was done, newest first."""
    made = CommandParser(
        prog="hermes audit",
        description=tr(
            "What people did from chats, the newest first: messages, answers to questions, what was refused, people "
            "and codes that were changed, unknown senders who were turned away. The newest 100,000 are kept."
        ),
        epilog="example: hermes audit --person telegram:12345678 -n 20",
    )
    made.add_argument("--person", default="", metavar="ID", help=tr("only what this person did"))
    made.add_argument("--platform", default="", metavar="NAME", help=tr("only what was done there"))
    made.add_argument("-n", type=int, default=50, dest="limit", metavar="N", help=tr("how many, 50 by default"))
    made.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    args = made.parse_arguments(arguments)
    try:
        rows = asyncio.run(_list_entries(args.person, args.platform, max(args.limit, 1)))
    except HermesError as error:
        return report_failure(error)
    if args.as_json:
        print_json(rows)
    else:
        print("\n".join(map(format_audit_entry, rows)) or tr("Nothing was done yet."))
    return 0


async def _list_entries(person: str, platform: str, limit: int) -> list[Plain]:
    async with open_people_admin(copy_environment()) as admin:
        return await admin.list_audit(person=person, platform=platform, limit=limit)
