"""`hermes pairing`: manage the pairing codes by which somebody becomes known to the gateway."""

import argparse
import asyncio

from hermes.admin.people.admin import open_people_admin
from hermes.cli.errors import report_failure
from hermes.cli.output import print_json
from hermes.cli.parser import CommandParser
from hermes.commands.views.people import format_pairing_code
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr


def run(arguments: list[str]) -> int:
    """Parse the arguments and run one of the verbs."""
    args = _build_parser().parse_arguments(arguments)
    try:
        asyncio.run(_run_verb(args))
    except HermesError as error:
        return report_failure(error)
    return 0


def _build_parser() -> CommandParser:
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


async def _run_verb(args: argparse.Namespace) -> None:
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
