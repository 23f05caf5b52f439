"""`hermes home`: show the home folder, or agree to share it with another program."""

import asyncio

from hermes.cli.errors import report_failure
from hermes.cli.output import print_json
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr
from hermes.sessions.app import share_home


def run(arguments: list[str]) -> int:
    """Show the home, or agree to share it."""
    parser = CommandParser(
        prog="hermes home",
        description="Show the home folder. `share` agrees that Hermes keeps its own files beside another program's.",
        epilog="example: hermes home share",
    )
    parser.add_argument("action", nargs="?", choices=["show", "share"], default="show")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    args = parser.parse_arguments(arguments)
    environ = copy_environment()
    try:
        home = locate_home(environ)
        if args.action == "share":
            asyncio.run(share_home(environ))
            message = "Hermes now keeps hermes.db and search.db in {root}; nothing else there was touched."
            print(tr(message, root=home.root))
            return 0
        other = home.find_foreign_file()
        if args.as_json:
            print_json({"home": str(home.root), "shared_with": other})
            return 0
        print(home.root)
        if other:
            message = "Another program keeps its state here too ({other}). `hermes home share` agrees to that."
            print(tr(message, other=other))
        return 0
    except HermesError as error:
        return report_failure(error)
