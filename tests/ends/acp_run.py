"""`make acp`: installs the three clients that others have written into a folder of its own, has them drive
`hermes acp`, checks every message of the tests by the public schema that comes with one, and kills editors. It says
what it could not run.

    python -m tests.ends.acp_run [--kills 100]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SCHEMA = Path("node_modules/@agentclientprotocol/sdk/schema/v1/schema.json")


def install_python(folder: Path) -> Path | None:
    """Install the Python package into an environment of its own; return its Python, None where it cannot be had."""
    subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True)
    python = folder / "python" / "bin" / "python"
    words = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "agent-client-protocol"]
    return python if subprocess.run(words, check=False).returncode == 0 else None


def install_node(folder: Path) -> Path | None:
    """Install npm's SDK and acpx; return their folder, None where they cannot be had."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None
    place = folder / "npm"
    words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(place)]
    words += ["@agentclientprotocol/sdk", "acpx"]
    return place if subprocess.run(words, check=False).returncode == 0 else None


def main() -> int:
    """Run what can be run; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    kills = parser.parse_args().kills
    with tempfile.TemporaryDirectory(prefix="hermes-acp-") as name:
        environ = dict(os.environ)
        python, node = install_python(Path(name)), install_node(Path(name))
        if python is None:
            sys.stderr.write("The Python package agent-client-protocol cannot be installed: it is not tried.\n")
        else:
            environ["ACP_PYTHON"] = str(python)
        if node is None:
            sys.stderr.write("npm's clients cannot be installed: they are not tried, and no schema is checked.\n")
        else:
            environ |= {"ACP_NODE": str(node), "ACP_SCHEMA": str(node / SCHEMA)}
        words = [sys.executable, "-m", "pytest", "-q", "-rs", "-n", "2", "tests/acp", "tests/ends/test_acp_end.py"]
        code = subprocess.run(words, env=environ, check=False).returncode
        environ.pop("ACP_SCHEMA", None)  # what is measured is Hermes, not the check
        words = [sys.executable, "-m", "tests.torture.acp_kills", "--kills", str(kills)]
        return subprocess.run(words, env=environ, check=False).returncode or code


if __name__ == "__main__":
    sys.exit(main())
