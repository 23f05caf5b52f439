"""`hermes people`: who may talk with the agent from chats."""

import argparse
import asyncio

from hermes.admin.people.admin import PeopleAdmin, open_people_admin
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.cli.output import agreed, print_json
from hermes.commands.views.people import format_person
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import say
from hermes.util.text import escaped


def run(arguments: list[str]) -> int:
    """Parse and run one of the verbs."""
    given = _parser().read(arguments)
    try:
        return asyncio.run(_done(given))
    except HermesError as error:
        return failed(error)


def _parser() -> Parser:
    made = Parser(
        prog="hermes people",
        description=say(
            "Who may talk with the agent from chats, by which accounts, and as what. The owner is one person"
            " everywhere, at this terminal too. What is changed counts from their next message on."
        ),
        epilog="example: hermes people link owner telegram 12345678",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    told = {
        "list": say("everybody who is known (also without a verb)"),
        "show": say("one person, with what they may do"),
        "add": say("add somebody, who has no account yet"),
        "rename": say("call somebody so"),
        "role": say("let somebody be an admin, a user or a guest"),
        "link": say("let an account on a platform be somebody's"),
        "unlink": say("let an account be nobody's"),
        "remove": say("know somebody no more"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in told.items()}
    for verb in ("show", "add", "rename", "role", "link", "remove"):
        parsers[verb].add_argument("person", help=say("their id, or their name"))
    parsers["add"].add_argument("--name", default="", help=say("what they are called"))
    parsers["add"].add_argument("--role", default="user", help=say("admin, user (the default) or guest"))
    parsers["rename"].add_argument("name", help=say("what they are called"))
    parsers["role"].add_argument("role", help=say("admin, user or guest"))
    for verb in ("link", "unlink"):
        parsers[verb].add_argument("platform", help=say("an account of Hermes', as `platforms:` names it"))
        parsers[verb].add_argument("account", help=say("the platform's own id of their account"))
    parsers["remove"].add_argument("--yes", action="store_true", help=say("do not ask"))
    for parser in parsers.values():
        parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    return made


async def _done(given: argparse.Namespace) -> int:
    async with open_people_admin(process_environment()) as desk:
        match given.verb:
            case "remove":
                return await _removed(desk, given)
            case "unlink":
                rows = [await desk.find_person(await desk.unlink_account(given.platform, given.account))]
            case "show" | "add" | "rename" | "role" | "link":
                rows = [await _changed(desk, given)]
            case _:
                rows = await desk.list_people()
    if getattr(given, "as_json", False):
        print_json(rows if given.verb in (None, "list") else rows[0])
    else:
        print("\n".join(line for row in rows for line in format_person(row)))
    return 0


async def _changed(desk: PeopleAdmin, given: argparse.Namespace) -> dict[str, object]:
    match given.verb:
        case "add":
            return await desk.add_person(given.person, name=given.name, role=given.role)
        case "rename":
            return await desk.rename_person(given.person, given.name)
        case "role":
            return await desk.set_role(given.person, given.role)
        case "link":
            return await desk.link_account(given.person, given.platform, given.account)
        case _:
            return await desk.find_person(given.person)


async def _removed(desk: PeopleAdmin, given: argparse.Namespace) -> int:
    name = escaped(await desk.find_removable_person(given.person))
    question = say("Know {name} no more? They get no answer then.", name=name)
    yes = agreed(question, yes=given.yes, what=say("Removing somebody"))
    if not yes:
        return 2 if yes is None else 1
    removed = await desk.remove_person(given.person)
    if given.as_json:
        print_json({"removed": removed})
    else:
        print(say("{name} is not known any more.", name=escaped(removed)))
    return 0
