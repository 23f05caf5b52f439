"""`hermes insights`: tokens, money and work over some days, as pictures."""

import asyncio
import shutil

from hermes.admin.insights import report_insights
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.cli.output import print_json
from hermes.commands.views.insights import format_insights
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import say


def run(arguments: list[str]) -> int:
    """Show the report."""
    parser = Parser(
        prog="hermes insights",
        description=say("What was done and what it cost: by day, hour, model and tool. Caps: `hermes usage`."),
        epilog="example: hermes insights --days 7",
    )
    parser.add_argument("--days", type=int, default=30, metavar="N", help=say("how many days back, this one included"))
    parser.add_argument("--plain", action="store_true", help=say("words instead of pictures, for a screen reader"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    given = parser.read(arguments)
    environ = process_environment()
    try:
        report = asyncio.run(report_insights(environ, days=given.days))
    except HermesError as error:
        return failed(error)
    if given.as_json:
        print_json(report)
        return 0
    words = given.plain or environ.get("TERM") == "dumb"
    room = min(shutil.get_terminal_size((80, 24)).columns, 100)
    print("\n".join(format_insights(report, room, words=words)))
    return 0
