"""`python -m hermes`, and the `hermes` command."""

import sys


def main() -> int:
    """Run the command line."""
    from hermes.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
