#!/usr/bin/env python3
"""Write docs/openapi.json: the API for programs, built from the table of its operations and its types.

python scripts/openapi.py            prints it
python scripts/openapi.py --write    writes it
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hermes import __version__  # noqa: E402 - the tree that this file stands in
from hermes.gateway.platforms.api_server.openapi import format_openapi  # noqa: E402

if __name__ == "__main__":
    if "--write" in sys.argv:
        (ROOT / "docs" / "openapi.json").write_bytes(format_openapi(__version__))
    else:
        sys.stdout.buffer.write(format_openapi(__version__))
