"""`python -m hermes`, and the `hermes` command."""

import gc
import sys

_YOUNG_THRESHOLD = 20_000


def main() -> int:
    """Run the command line."""
    # What imports make stays: by default it is looked through eighty times before the first request, in 8 ms.
    gc.set_threshold(_YOUNG_THRESHOLD)
    from hermes.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
