"""`hermes audit`: what people did from chats."""

import asyncio

from hermes.admin.people.admin import open_people_admin
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.cli.output import print_json
from hermes.commands.views.people import format_audit_entry
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import say
from hermes.sessions.formats.openai_format import Plain


def run(arguments: list[str]) -> int:
    """Show what was done, the newest first."""
    made = Parser(
        prog="hermes audit",
        description=say(
            "What people did from chats, the newest first: messages, answers to questions, what was refused, people "
            "and codes that were changed, strangers who were turned away. The newest 100,000 are kept."
        ),
        epilog="example: hermes audit --person telegram:12345678 -n 20",
    )
    made.add_argument("--person", default="", metavar="ID", help=say("only what this person did"))
    made.add_argument("--platform", default="", metavar="NAME", help=say("only what was done there"))
    made.add_argument("-n", type=int, default=50, dest="limit", metavar="N", help=say("how many, 50 by default"))
    made.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    given = made.read(arguments)
    try:
        rows = asyncio.run(_rows(given.person, given.platform, max(given.limit, 1)))
    except HermesError as error:
        return failed(error)
    if given.as_json:
        print_json(rows)
    else:
        print("\n".join(map(format_audit_entry, rows)) or say("Nothing was done yet."))
    return 0


async def _rows(person: str, platform: str, limit: int) -> list[Plain]:
    async with open_people_admin(process_environment()) as desk:
        return await desk.list_audit(person=person, platform=platform, limit=limit)
