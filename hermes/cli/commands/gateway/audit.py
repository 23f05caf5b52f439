"""`hermes audit`: show what people did from chats."""

import asyncio

from hermes.admin.people.admin import open_people_admin
from hermes.cli.errors import report_failure
from hermes.cli.output import print_json
from hermes.cli.parser import CommandParser
from hermes.commands.views.people import format_audit_entry
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr
from hermes.sessions.formats.openai_format import Plain


def run(arguments: list[str]) -> int:
    """Print what was done, newest first."""
    made = CommandParser(
        prog="hermes audit",
        description=tr(
            "What people did from chats, the newest first: messages, answers to questions, what was refused, people "
            "and codes that were changed, strangers who were turned away. The newest 100,000 are kept."
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
