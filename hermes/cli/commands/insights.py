"""`hermes insights`: chart tokens, money and work over some days."""

import asyncio
import shutil

from hermes.admin.insights import report_insights
from hermes.cli.errors import report_failure
from hermes.cli.output import print_json
from hermes.cli.parser import CommandParser
from hermes.commands.views.insights import format_insights
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr


def run(arguments: list[str]) -> int:
    """Show the report."""
    parser = CommandParser(
        prog="hermes insights",
        description=tr("What was done and what it cost: by day, hour, model and tool. Caps: `hermes usage`."),
        epilog="example: hermes insights --days 7",
    )
    parser.add_argument("--days", type=int, default=30, metavar="N", help=tr("how many days back, this one included"))
    parser.add_argument("--plain", action="store_true", help=tr("words instead of pictures, for a screen reader"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    args = parser.parse_arguments(arguments)
    environ = copy_environment()
    try:
        report = asyncio.run(report_insights(environ, days=args.days))
    except HermesError as error:
        return report_failure(error)
    if args.as_json:
        print_json(report)
        return 0
    words = args.plain or environ.get("TERM") == "dumb"
    room = min(shutil.get_terminal_size((80, 24)).columns, 100)
    print("\n".join(format_insights(report, room, words=words)))
    return 0
