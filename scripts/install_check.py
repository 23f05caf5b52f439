#!/usr/bin/env python3
"""Install Hermes as a person does, and ask it a question: `make install-check`.

    python -m scripts.install_check [--build] [--wheels FOLDER] [--only pip,sdist,extras,pipx,uv,action] [--python PATH]

1. Builds the source archive, and the wheel from that archive, into `dist/` (`--build`: nothing more).
2. Downloads the wheels of what it needs, at the locked versions, and serves all of them as an index on loopback.
3. Installs from that index with pip, pipx and uv, as docs/install.md says it. Every other host is out of reach: proxies
   lead to a closed port, and no settings of pip or uv are read.
4. Asks each installed `hermes` one prompt, which a scripted model server on loopback answers; so it does by action.yml,
   and by the gateway, whose extra is asked for where it is missing.

Needs the packages of `make test`. pipx and uv are installed for the check where they are missing; a way whose program
cannot be had is named as skipped.
"""

import argparse
import asyncio
import functools
import hashlib
import html
import http.server
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hermes.testing.home import TempHome
from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.e2e.test_github_action import run_action

ROOT = Path(__file__).resolve().parent.parent
NAME = "hermes-anew"
ANSWER = "The wheel works."
CLOSED = "http://127.0.0.1:9"
"""A proxy that nobody answers at: what goes past the index fails at once."""
IMPORTS = """
import importlib, importlib.metadata as metadata, re, sys
tops = {}
for top, names in metadata.packages_distributions().items():
    for name in names:
        tops.setdefault(re.sub(r"[-_.]+", "-", name).lower(), []).append(top)
def list_required(extra):
    marker = re.compile(r"extra == ['\\"]%s['\\"]" % extra)
    found = [one for one in metadata.requires("hermes-anew") if marker.search(one)]
    assert found, "the wheel has no extra " + extra
    for one in found:
        inner = re.match(r"hermes-anew\\[([\\w, ]+)\\]", one)
        yield from (deep for name in inner[1].split(",") for deep in list_required(name.strip())) if inner else [one]
for one in list_required(sys.argv[1]):
    name = re.sub(r"[-_.]+", "-", re.match(r"[\\w.-]+", one)[0]).lower()
    for top in tops[name]:
        if not top.startswith("_"):
            importlib.import_module(top)
    print(name, end=" ")
"""


class CheckError(Exception):
    """A step of the check did not do what it should."""


def run_program(command: list[str], environ: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program and return its output. Raises CheckError with what it said where it fails."""
    done = subprocess.run(command, env=environ, cwd=cwd, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        raise CheckError(f"{' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def build_packages(target: Path) -> tuple[Path, Path]:
    """Build the source archive, and the wheel from it; return both files."""
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("hermes_anew-*"):
        old.unlink()
    code = "import sys; from flit_core import buildapi; print(buildapi.build_sdist(sys.argv[1]))"
    archive = target / run_program([sys.executable, "-c", code, str(target)], cwd=ROOT).strip()
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        (source,) = Path(unpacked).iterdir()
        code = "import sys; from flit_core import buildapi; print(buildapi.build_wheel(sys.argv[1]))"
        wheel = target / run_program([sys.executable, "-c", code, str(target)], cwd=source).strip()
    for file in (archive, wheel):
        file.chmod(0o644)
    return archive, wheel


def download_wheels(python: str, wheel: Path, folder: Path) -> None:
    """Download what every extra needs for this Python, as locked where it is, and flit_core for the source archive."""
    folder.mkdir(parents=True, exist_ok=True)
    locked = [
        match[1].strip()
        for line in (ROOT / "requirements" / "run.txt").read_text("utf-8").splitlines()
        if (match := re.match(r"([\w.-]+==[^\\]+)", line))
    ]
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(locked) + "\n", "utf-8")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--only-binary", ":all:"]
    run_program([*pip, "-d", str(folder), "-c", str(constraints), f"{wheel}[all]", "flit_core>=3.11,<4"])
    for own in folder.glob("hermes_anew-*"):
        own.unlink()


def make_index(files: list[Path], folder: Path) -> None:
    """Write a simple index: a folder for each package, with links that hold the checksums of its files."""
    for file in files:
        stem = file.name.split("-")[0] if file.suffix == ".whl" else file.name.rpartition("-")[0]
        place = folder / "simple" / re.sub(r"[-_.]+", "-", stem).lower()
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, place / file.name)
    for place in (folder / "simple").iterdir():
        links = [
            f'<a href="{html.escape(one.name)}#sha256={hashlib.sha256(one.read_bytes()).hexdigest()}">{one.name}</a>'
            for one in sorted(place.iterdir())
        ]
        (place / "index.html").write_text("<!doctype html>\n" + "\n".join(links), "utf-8")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each request."""

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def serve_index(folder: Path) -> Iterator[str]:
    """Serve the folder on loopback; yields the address of its index."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/simple/"
        finally:
            server.shutdown()
            thread.join()


def isolate_environment(python: str, index: str, folder: Path) -> dict[str, str]:
    """Return an environment in which pip, pipx and uv know this Python and one index, and reach nothing else."""
    proxies = {name: CLOSED for one in ("http_proxy", "https_proxy", "all_proxy") for name in (one, one.upper())}
    return {
        "PATH": os.pathsep.join([str(make_python_folder(python, folder)), os.environ["PATH"]]),
        "HOME": str(folder / "home"),
        "LANG": "C.UTF-8",
        **proxies,
        "no_proxy": "127.0.0.1",
        "NO_PROXY": "127.0.0.1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": index,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIPX_HOME": str(folder / "pipx"),
        "PIPX_BIN_DIR": str(folder / "pipx-bin"),
        "PIPX_DEFAULT_PYTHON": python,
        "UV_NO_CONFIG": "1",
        "UV_DEFAULT_INDEX": index,
        "UV_CACHE_DIR": str(folder / "uv-cache"),
        "UV_TOOL_DIR": str(folder / "uv-tools"),
        "UV_TOOL_BIN_DIR": str(folder / "uv-bin"),
        "UV_PYTHON": python,
        "UV_PYTHON_DOWNLOADS": "never",
    }


def make_python_folder(python: str, folder: Path) -> Path:
    """Make a folder in which this Python is `python3`, as the steps of an action call it."""
    place = folder / "python"
    place.mkdir()
    (place / "python3").write_text(f'#!/bin/sh\nexec {shlex.quote(python)} "$@"\n')
    (place / "python3").chmod(0o755)
    return place


def inherit_variables(outside: dict[str, str], home: TempHome) -> dict[str, str]:
    """Return the environment of an installed program in a home; uvx needs its settings at each start."""
    kept = {name: value for name, value in home.environ.items() if name not in ("PATH", "PYTHONPATH")}
    return {name: value for name, value in outside.items() if name == "PATH" or name.startswith(("UV_", "PIP_"))} | kept


def find_free_port() -> int:
    """Return a port that is free at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def ask_api(port: int, key: str) -> str:
    """Ask the gateway's API server once it listens, a moment after the gateway is up; return its answer."""
    body = {"model": "hermes", "messages": [{"role": "user", "content": "Does it work?"}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    opener, end = urllib.request.build_opener(urllib.request.ProxyHandler({})), time.monotonic() + 60
    while True:
        try:
            with opener.open(request, timeout=60) as answer:
                return str(json.load(answer)["choices"][0]["message"]["content"])
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > end:
                raise CheckError(f"the gateway's API: {error}") from None
            time.sleep(0.1)


async def ask_gateway(command: list[str], outside: dict[str, str]) -> None:
    """Start the gateway as `hermes gateway start` does, ask it over its API, and stop it."""
    port, key = find_free_port(), secrets.token_hex(16)
    async with ScriptedServer(ScriptedModel([Say(ANSWER)])) as server:
        with TempHome.for_server(server.url, more_config={"platforms": {"api_server": {"port": port}}}) as home:
            environ = inherit_variables(outside, home) | {"API_SERVER_KEY": key}
            await asyncio.to_thread(run_program, [*command, "gateway", "start"], environ, home.cwd)
            try:
                said = await asyncio.to_thread(ask_api, port, key)
            finally:
                await asyncio.to_thread(run_program, [*command, "gateway", "stop"], environ, home.cwd)
    if said != ANSWER:
        raise CheckError(f"the gateway answers {said!r}")


async def ask_prompt(command: list[str], outside: dict[str, str]) -> None:
    """Ask an installed `hermes` one question. Raises CheckError where it does not answer."""
    async with ScriptedServer(ScriptedModel([Say(ANSWER)])) as server:
        with TempHome.for_server(server.url) as home:
            process = await asyncio.create_subprocess_exec(
                *command,
                "-z",
                "Does it work?",
                cwd=home.cwd,
                env=inherit_variables(outside, home),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await asyncio.wait_for(process.communicate(), 120)
    if (process.returncode, out.decode()) != (0, ANSWER + "\n"):
        raise CheckError(f"{' '.join(command)} -z: exit code {process.returncode}\n{out.decode()}{err.decode()}")


async def ask_action(environ: dict[str, str]) -> str:
    """Run the GitHub action in an environment without Hermes; return the outcome of its task."""
    async with ScriptedServer(ScriptedModel([Say(ANSWER)])) as server:
        with TempHome(None) as home:
            given = {"prompt": "Does it work?", "provider": "custom", "base_url": server.url, "model": "mock-model"}
            done = await run_action(home, environ, **given)
    if done.code or done.outputs["answer"] != ANSWER:
        raise CheckError(f"action.yml ended with {done.code}: {done.log[-2000:]}")
    return done.outputs["outcome"]


class InstallCheck:
    """The ways in which Hermes is installed; each returns a line about what it has seen."""

    def __init__(self, python: str, folder: Path, environ: dict[str, str], version: str) -> None:
        self.python = python
        self.folder = folder
        self.environ = environ
        self.version = version

    def check_pip(self) -> str:
        """`pip install hermes-anew` into a fresh environment, and the extra that its gateway asks for."""
        bin_folder = self._make_venv("pip", NAME)
        said = self._try_program([str(bin_folder / "hermes")])
        self._try_gateway([str(bin_folder / "hermes")])
        return said

    def check_sdist(self) -> str:
        """The same from the source archive, which is built with what the index has."""
        bin_folder = self._make_venv("sdist", "--no-binary", NAME, NAME)
        return self._try_program([str(bin_folder / "hermes")])

    def check_extras(self) -> str:
        """Each extra by itself: what it names can be imported."""
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        found = []
        for extra in extras:
            bin_folder = self._make_venv(f"extra-{extra}", f"{NAME}[{extra}]")
            seen = run_program([str(bin_folder / "python"), "-c", IMPORTS, extra], self.environ, self.folder)
            self._try_program([str(bin_folder / "hermes")])
            found.append(f"[{extra}]: {seen.strip()}")
        return "; ".join(found)

    def check_pipx(self) -> str:
        """`pipx install hermes-anew`, and the extra that its gateway asks for."""
        pipx = self._find_tool("pipx")
        run_program([pipx, "install", NAME], self.environ)
        command = [str(self.folder / "pipx-bin" / "hermes")]
        self._try_gateway(command)
        return self._try_program(command)

    def check_uv(self) -> str:
        """`uvx hermes-anew`, `uvx --from 'hermes-anew[gateway]' hermes`, and `uv tool install hermes-anew`."""
        uvx, uv = self._find_tool("uvx"), self._find_tool("uv")
        self._try_program([uvx, NAME])
        self._try_program([uvx, "--from", f"{NAME}[gateway]", "hermes"])
        run_program([uv, "tool", "install", NAME], self.environ)
        command = [str(self.folder / "uv-bin" / "hermes")]
        self._try_gateway(command)
        run_program([uv, "tool", "install", "--force", f"{NAME}[all]"], self.environ)
        return self._try_program(command)

    def check_action(self) -> str:
        """action.yml as a runner without Hermes runs it: it installs itself, and answers."""
        outcome = asyncio.run(ask_action({**self.environ, "TMPDIR": str(self.folder)}))
        return f"{outcome}, installed from the checkout"

    def _make_venv(self, name: str, *wanted: str) -> Path:
        place = self.folder / name
        run_program([self.python, "-m", "venv", str(place)])
        run_program([str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted], self.environ)
        return place / "bin"

    def _find_tool(self, name: str) -> str:
        """Return a program of the machine, or install it with the person's own settings. Raises LookupError."""
        if found := shutil.which(name):
            return found
        place = self.folder / "tools"
        if not place.exists():
            run_program([sys.executable, "-m", "venv", str(place)])
            pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            for one in ("uv", "pipx"):
                subprocess.run([*pip, one], check=False, capture_output=True)
        if not (place / "bin" / name).exists():
            raise LookupError(f"{name} is not here and cannot be installed")
        return str(place / "bin" / name)

    def _try_gateway(self, command: list[str]) -> None:
        """Start the gateway without its packages, do what it says, and ask it over its API."""
        words = [*command, "gateway", "run"]
        done = subprocess.run(words, env=self.environ, cwd=self.folder, capture_output=True, text=True, check=False)
        _, found, advice = done.stderr.strip().partition("Install them: ")
        if done.returncode != 78 or not found or "\n" in advice:
            raise CheckError(f"without its packages the gateway ends with {done.returncode}: {done.stderr}")
        tools = os.pathsep.join([self.environ["PATH"], str(self.folder / "tools" / "bin")])
        run_program(["sh", "-c", advice], self.environ | {"PATH": tools})
        asyncio.run(ask_gateway(command, self.environ))

    def _try_program(self, command: list[str]) -> str:
        """Ask the program its version and one prompt; return the version's line."""
        said = run_program([*command, "--version"], self.environ, self.folder).splitlines()[0]
        if self.version not in said:
            raise CheckError(f"{' '.join(command)} --version says {said!r}")
        asyncio.run(ask_prompt(command, self.environ))
        return said


def check_installs(python: str, files: tuple[Path, Path], wheels: Path, only: list[str]) -> int:
    """Run the chosen ways; return how many failed."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="hermes-install-") as made:
        folder = Path(made)
        (folder / "home").mkdir()
        make_index([*files, *(one for one in wheels.iterdir() if one.suffix == ".whl")], folder / "index")
        with serve_index(folder / "index") as index:
            environ = isolate_environment(python, index, folder)
            check = InstallCheck(python, folder, environ, files[1].name.split("-")[1])
            ways: dict[str, Callable[[], str]] = {
                "pip": check.check_pip,
                "sdist": check.check_sdist,
                "extras": check.check_extras,
                "pipx": check.check_pipx,
                "uv": check.check_uv,
                "action": check.check_action,
            }
            for name in only or ways:
                try:
                    print(f"{name:<7} ok       {ways[name]()}", flush=True)
                except LookupError as error:
                    print(f"{name:<7} skipped  {error}", flush=True)
                except CheckError as error:
                    failed += 1
                    print(f"{name:<7} FAILED   {error}", flush=True)
    return failed


def main() -> int:
    """Build, install and ask; return the exit code."""
    parser = argparse.ArgumentParser(description="Install Hermes as a person does, and ask it a question.")
    parser.add_argument("--build", action="store_true", help="build dist/ only")
    parser.add_argument(
        "--wheels", type=Path, default=ROOT / "build" / "wheels", help="where downloaded wheels are kept"
    )
    parser.add_argument("--only", default="", help="some of pip,sdist,extras,pipx,uv,action")
    parser.add_argument("--python", default=sys.executable, help="the Python that Hermes is installed for")
    args = parser.parse_args()
    files = build_packages(ROOT / "dist")
    for file in files:
        print(f"{file.relative_to(ROOT)}  {file.stat().st_size / 1e6:.1f} MB")
    if args.build:
        return 0
    python = shutil.which(args.python)
    if python is None:
        parser.error(f"there is no {args.python}")
    download_wheels(python, files[1], args.wheels)
    return 1 if check_installs(python, files, args.wheels, [one for one in args.only.split(",") if one]) else 0


if __name__ == "__main__":
    sys.exit(main())
