"""The programs that do the tasks: how each is called, what that costs, and how refs are read from what it prints."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from hermes.browser.process.launch import BrowserStarter
from hermes.browser.session_browser import BrowserPlan, SessionBrowser
from hermes.execution.sandbox.probe import SandboxProbe
from hermes.execution.supervisor import Supervisors
from hermes.tools.registry import ToolRegistry
from hermes.tools.session import WebAccess
from tests.tools.tool_session import Person, Session, make_context

_PUBLIC = "93.184.216.34"
_CHROMIUM = "/usr/bin/chromium"
_CALL_SECONDS = 60.0
_LIMIT = 1 << 24
_THINK_SECONDS = 0.25
"""A model takes longer than that between two calls: pages go on meanwhile."""
_READS = ("snapshot", "get", "eval", "tab", "dialog", "wait")
"""Commands whose results are read before the next one is written."""


def write_json(value: object) -> str:
    """Return a value as the shortest JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class TaskFailedError(Exception):
    """A program did not show what a task needs."""


class Tally:
    """Counts characters of calls and results, and keeps what was shown."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin a task."""
        self.calls = self.spent = 0
        self.view = self.last = ""
        self.log: list[tuple[str, str]] = []

    def note(self, call: str, result: str, *, is_call: bool = True) -> None:
        """Count a call and its result; with `is_call` false it is a part of the one before."""
        self.calls += is_call
        self.spent += len(call) + len(result)
        self.last = result
        self.view += f"\n{result}"
        self.log.append((call, result))

    def see(self, words: str) -> None:
        """Check that the model has been shown something since the task began."""
        if words not in self.view:
            raise TaskFailedError(f"not shown: {words!r}")

    def find_in(self, text: str, pattern: str, after: str = "") -> str:
        """Return what the last match of a pattern holds; with `after` the first one behind these words."""
        if after:
            place = text.rfind(after)
            found = re.search(pattern, text[place:]) if place >= 0 else None
            matches = [found[1]] if found else []
        else:
            matches = re.findall(pattern, text)
        if not matches:
            raise TaskFailedError(f"not found: {pattern} after {after!r}")
        return str(matches[-1])


class HermesProgram(Tally):
    """Hermes' tools through its executor, with its browser in its box. Calls are counted as a model makes those of
    deferred tools: by `tool_call`.
    """

    name = "Hermes"
    hosts = ("a.example", "b.example")
    file = "note.txt"

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.version = "this tree"
        found = session.toolbox.search("open a web page", 5)
        self.definitions = sum(
            len(one.schema.name) + len(one.schema.description) + len(one.schema.parameters) for one in found
        )

    async def call(self, name: str, **arguments: object) -> str:
        """Call a tool, and return what the model is told."""
        await asyncio.sleep(_THINK_SECONDS)
        result = await self._session.call(f"browser_{name}", **arguments)
        call = write_json({"name": f"browser_{name}", "arguments": arguments})
        self.note(f"tool_call{call}", result.text)
        return result.text

    def ref(self, label: str, after: str = "") -> str:
        """Return the ref of an element by its role and name as they were told: `button "Send"`."""
        text = self.view
        return self.find_in(text, rf"(e\d+) {re.escape(label)}", after)


@contextlib.asynccontextmanager
async def run_hermes(port: int) -> AsyncIterator[HermesProgram]:
    """Lend Hermes with a session of its own."""

    async def resolve(host: str, _port: int) -> list[str]:
        return [_PUBLIC]

    async def connect(_address: str, _port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    environ = dict(os.environ)
    supervisors = Supervisors(environ)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        plan = BrowserPlan(environ=environ, downloads=home / "downloads", resolver=resolve, connect=connect)
        browser = SessionBrowser(plan, BrowserStarter(supervisors=supervisors, probe=SandboxProbe(environ)))
        context = make_context(home, browser=browser, web=WebAccess(resolver=resolve))
        session = Session(context, ToolRegistry().select_tools(("browser",)))
        session.person = Person(*[True] * 1_000)
        (session.cwd / "note.txt").write_text("The tap drips.")
        try:
            yield HermesProgram(session)
        finally:
            await session.close()
            await browser.close()
            await supervisors.close()


class PlaywrightProgram(Tally):
    """Playwright's MCP server, over its standard input and output."""

    name = "Playwright MCP"
    hosts = ("127.0.0.1", "localhost")

    def __init__(self, process: asyncio.subprocess.Process, file: str, version: str) -> None:
        super().__init__()
        self._process = process
        self._number = 0
        self.file = file
        self.version = version
        self.definitions = 0

    async def start(self) -> None:
        """Open the session, and read the definitions of the tools."""
        client = {"name": "bench", "version": "1"}
        given = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        await self._request("initialize", given)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        tools = (await self._request("tools/list", {}))["tools"]
        assert isinstance(tools, list)
        kept = [{key: one[key] for key in ("name", "description", "inputSchema")} for one in tools]
        self.definitions = len(write_json(kept))

    async def call(self, name: str, **arguments: object) -> str:
        """Call a tool, and return what the model is told."""
        await asyncio.sleep(_THINK_SECONDS)
        result = await self._request("tools/call", {"name": f"browser_{name}", "arguments": arguments})
        content = result["content"]
        assert isinstance(content, list)
        text = "\n".join(str(one.get("text", "")) for one in content)
        self.note(f"browser_{name}{write_json(arguments)}", text)
        return text

    def ref(self, label: str, after: str = "") -> str:
        """Return the ref of an element by its role and name as they were told: `button "Send"`."""
        return self.find_in(self.view, rf"{re.escape(label)}[^\n]*?\[ref=(\w+)\]", after)

    async def _request(self, method: str, params: dict[str, object]) -> dict[str, object]:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        async with asyncio.timeout(_CALL_SECONDS):
            while True:
                answer = json.loads(await self._process.stdout.readline())
                if answer.get("id") == self._number:
                    return dict(answer["result"])

    def _send(self, message: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")


@contextlib.asynccontextmanager
async def run_playwright(peers: Path) -> AsyncIterator[PlaywrightProgram]:
    """Lend Playwright's MCP server with a browser of its own."""
    package = peers / "node_modules" / "@playwright" / "mcp"
    version = str(json.loads((package / "package.json").read_text())["version"])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "note.txt"
        file.write_text("The tap drips.")
        process = await asyncio.create_subprocess_exec(
            "node",
            str(package / "cli.js"),
            *("--executable-path", _CHROMIUM, "--headless", "--isolated"),
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,
            limit=_LIMIT,
        )
        program = PlaywrightProgram(process, str(file), version)
        try:
            await program.start()
            yield program
        finally:
            with contextlib.suppress(Exception):
                await program.call("close")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


class AgentBrowserProgram(Tally):
    """agent-browser's commands, as calls of a shell; those between two looks at the page are one call, as `a && b`."""

    name = "agent-browser"
    hosts = ("127.0.0.1", "localhost")

    def __init__(self, command: str, folder: str, version: str) -> None:
        super().__init__()
        self._command = command
        self._folder = folder
        self.file = f"{folder}/note.txt"
        self.version = version
        more = {"AGENT_BROWSER_EXECUTABLE_PATH": _CHROMIUM, "AGENT_BROWSER_SESSION": f"tasks-{os.getpid()}"}
        more |= {"AGENT_BROWSER_ARGS": "--no-sandbox"} if os.geteuid() == 0 else {}
        more |= {"HOME": folder, "AGENT_BROWSER_SOCKET_DIR": folder}
        self._environ = {**os.environ, **more}
        self.definitions = 0

    async def start(self) -> None:
        """Read the guide that is given to models."""
        self.definitions = len(await self.run("skills", "get", "core"))

    async def call(self, *words: str) -> str:
        """Run a command, and return what it prints."""
        await asyncio.sleep(_THINK_SECONDS)
        text = await self.run(*words)
        line = " ".join(one if re.fullmatch(r"[\w@./:=-]+", one) else f'"{one}"' for one in ("agent-browser", *words))
        if self._goes_on:
            self.note(f" && {line}", text, is_call=False)
        else:
            self.note("terminal" + write_json({"command": line}), text)
        self._goes_on = words[0] not in _READS
        return text

    def begin(self) -> None:
        """Begin a task."""
        super().begin()
        self._goes_on = False

    async def run(self, *words: str) -> str:
        """Run a command that is not counted."""
        process = await asyncio.create_subprocess_exec(
            self._command,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environ,
            cwd=self._folder,
        )
        async with asyncio.timeout(_CALL_SECONDS):
            printed, _ = await process.communicate()
        return printed.decode()

    def ref(self, label: str, after: str = "") -> str:
        """Return the ref of an element by its role and name in the last snapshot: `button "Send"`."""
        return "@" + self.find_in(self.view, rf"{re.escape(label)}[^\n]*?\bref=(e\d+)", after)


@contextlib.asynccontextmanager
async def run_agent_browser(peers: Path) -> AsyncIterator[AgentBrowserProgram]:
    """Lend agent-browser with a browser of its own."""
    package = peers / "node_modules" / "agent-browser"
    version = str(json.loads((package / "package.json").read_text())["version"])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        (Path(folder) / "note.txt").write_text("The tap drips.")
        native = package / "bin" / "agent-browser-linux-x64"
        native.chmod(0o755)
        program = AgentBrowserProgram(str(native), folder, version)
        try:
            await program.start()
            yield program
        finally:
            await program.run("close")


def find_missing(peers: Path | None) -> dict[str, str]:
    """Return the peers that cannot be run, with what is missing."""
    missing: dict[str, str] = {}
    for name, package in (("Playwright MCP", "@playwright/mcp"), ("agent-browser", "agent-browser")):
        if peers is None or not (peers / "node_modules" / package).is_dir():
            missing[name] = f"npm install {package} into a folder, PEERS=that folder"
        elif not Path(_CHROMIUM).exists() or shutil.which("node") is None:
            missing[name] = "needs chromium and node"
    return missing
