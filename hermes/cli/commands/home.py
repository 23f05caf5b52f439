"""`hermes home`: where Hermes keeps its things, and agreeing to share a folder with another program."""

import asyncio

from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.cli.output import print_json
from hermes.config.environment import process_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError
from hermes.i18n.messages import say
from hermes.sessions.app import share_home


def run(arguments: list[str]) -> int:
    """Show the home, or agree to share it."""
    parser = Parser(
        prog="hermes home",
        description="Show the home folder. `share` agrees that Hermes keeps its own files beside another program's.",
        epilog="example: hermes home share",
    )
    parser.add_argument("action", nargs="?", choices=["show", "share"], default="show")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    given = parser.read(arguments)
    environ = process_environment()
    try:
        home = locate_home(environ)
        if given.action == "share":
            asyncio.run(share_home(environ))
            told = "Hermes now keeps hermes.db and search.db in {root}; nothing else there was touched."
            print(say(told, root=home.root))
            return 0
        other = home.foreign()
        if given.as_json:
            print_json({"home": str(home.root), "shared_with": other})
            return 0
        print(home.root)
        if other:
            told = "Another program keeps its state here too ({other}). `hermes home share` agrees to that."
            print(say(told, other=other))
        return 0
    except HermesError as error:
        return failed(error)
