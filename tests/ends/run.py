"""`make ends`: installs real servers (Synapse and Home Assistant into folders of their own, dovecot and opensmtpd as
packages where this is Debian and we are root) and npm's OpenAI client, runs the tests against them, and says what it
could not run."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MAIL = ("dovecot-imapd", "dovecot-lmtpd", "opensmtpd")


def mail_servers() -> bool:
    """Whether the mail servers are here, after an attempt to install them."""
    there = all(Path(f"/usr/sbin/{one}").exists() for one in ("dovecot", "smtpd"))
    if there or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return there
    words = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *MAIL]
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(words, env=environ, stdout=subprocess.DEVNULL, check=False).returncode == 0


def homeserver(folder: Path) -> Path | None:
    """The Python of a fresh environment with Synapse; None when it cannot be installed."""
    subprocess.run([sys.executable, "-m", "venv", folder / "synapse"], check=True)
    python = folder / "synapse" / "bin" / "python"
    words = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "matrix-synapse"]
    return python if subprocess.run(words, check=False).returncode == 0 else None


def npm_client(folder: Path) -> Path | None:
    """A folder with npm's `openai`; None when it cannot be had."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None
    words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder / "npm"), "openai"]
    return folder / "npm" if subprocess.run(words, check=False).returncode == 0 else None


def home_program(folder: Path) -> Path | None:
    """The program of a fresh environment with Home Assistant, with the front end that it does not start without; None
    where no Python is new enough for it.
    """
    python = next((found for name in ("python3.14", "python3.13") if (found := shutil.which(name))), "")
    place = folder / "hass"
    if not python or subprocess.run([python, "-m", "venv", place], check=False, capture_output=True).returncode:
        return None
    install = [place / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    if subprocess.run([*install, "homeassistant"], check=False).returncode:
        return None
    (manifest,) = place.glob("lib/*/site-packages/homeassistant/components/frontend/manifest.json")
    needs = json.loads(manifest.read_text())["requirements"]
    return place / "bin" / "hass" if subprocess.run([*install, *needs], check=False).returncode == 0 else None


def main() -> int:
    """Run what can be run; the tests' own exit code."""
    with tempfile.TemporaryDirectory(prefix="hermes-ends-") as name:
        environ = {**os.environ, "HERMES_ENDS": "1"}
        given = os.environ.get("HERMES_SYNAPSE")
        python = Path(given) if given else homeserver(Path(name))
        if python is None:
            sys.stderr.write("Synapse could not be installed: Matrix is not tried.\n")
        else:
            environ["HERMES_SYNAPSE"] = str(python)
        node = npm_client(Path(name))
        if node is None:
            sys.stderr.write("node and npm are not here, or cannot get the client: npm's openai is not tried.\n")
        else:
            environ["OPENAI_NODE"] = str(node)
        given = os.environ.get("HERMES_HASS")
        hass = Path(given) if given else home_program(Path(name))
        if hass is None:
            sys.stderr.write("Home Assistant could not be installed (it needs Python 3.13): it is not tried.\n")
        else:
            environ["HERMES_HASS"] = str(hass)
        if not mail_servers():
            sys.stderr.write("dovecot and opensmtpd are not here (as root on Debian they are installed).\n")
        words = [sys.executable, "-m", "pytest", "-q", "-s", "-rs", "-p", "no:xdist", "tests/ends"]
        return subprocess.run(words, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
