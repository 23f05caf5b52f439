"""`hermes version`: print the version."""

import hermes
from hermes.cli.parser import CommandParser


def run(arguments: list[str]) -> int:
    """Print the version."""
    parser = CommandParser(
        prog="hermes version", description="Show the version.", epilog="example: hermes version --json"
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    args = parser.parse_arguments(arguments)
    if args.as_json:
        import json
        import platform

        print(json.dumps({"version": hermes.__version__, "python": platform.python_version()}))
    else:
        print(f"hermes {hermes.__version__}")
    return 0
