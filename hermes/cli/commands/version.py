"""`hermes version`."""

import hermes
from hermes.cli.arguments import Parser


def run(arguments: list[str]) -> int:
    """Print the version."""
    parser = Parser(prog="hermes version", description="Show the version.", epilog="example: hermes version --json")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    given = parser.read(arguments)
    if given.as_json:
        import json
        import platform

        print(json.dumps({"version": hermes.__version__, "python": platform.python_version()}))
    else:
        print(f"hermes {hermes.__version__}")
    return 0
