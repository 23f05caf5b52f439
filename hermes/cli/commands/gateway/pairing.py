"""`hermes pairing`: codes by which somebody becomes known."""

import argparse
import asyncio

from hermes.admin.people.admin import open_people_admin
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.cli.output import print_json
from hermes.commands.views.people import format_pairing_code
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import say


def run(arguments: list[str]) -> int:
    """Parse and run one of the verbs."""
    given = _parser().read(arguments)
    try:
        asyncio.run(_done(given))
    except HermesError as error:
        return failed(error)
    return 0


def _parser() -> Parser:
    made = Parser(
        prog="hermes pairing",
        description=say(
            "Codes by which somebody becomes known: they send the code to the bot in a direct chat. A code counts once "
            "and for an hour; three may wait for each platform."
        ),
        epilog="example: hermes pairing new --role user --platform telegram",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    told = {
        "new": say("make a code, which is shown once"),
        "list": say("the codes that wait (also without a verb)"),
        "revoke": say("let a code count no more"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in told.items()}
    new = parsers["new"].add_argument
    new("--role", default="user", help=say("what they become: owner, admin, user (the default) or guest"))
    new("--platform", default="", help=say("the only account of Hermes' where it counts, as `platforms:` names it"))
    new("--person", default="", metavar="ID", help=say("who is known already, and gets one more account"))
    new("--name", default="", help=say("what they are called"))
    parsers["revoke"].add_argument("code", help=say("its id, as `list` shows it"))
    for parser in parsers.values():
        parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    return made


async def _done(given: argparse.Namespace) -> None:
    as_json = getattr(given, "as_json", False)
    async with open_people_admin(process_environment()) as desk:
        match given.verb:
            case "new":
                code = await desk.create_code(
                    given.role, platform=given.platform, name=given.name, person_id=given.person
                )
                if as_json:
                    print_json({"code": code})
                    return
                print(code)
                print(say("They send it to the bot in a direct chat, within an hour. It is not shown again."))
            case "revoke":
                await desk.revoke_code(given.code)
                if as_json:
                    print_json({"revoked": given.code})
                else:
                    print(say("The code counts no more."))
            case _:
                rows = await desk.list_codes()
                if as_json:
                    print_json(rows)
                else:
                    print("\n".join(map(format_pairing_code, rows)) or say("No code waits."))
