"""`hermes version`."""

import hermes


def run(arguments: list[str]) -> int:
    """Print the version."""
    del arguments
    print(f"hermes {hermes.__version__}")
    return 0
