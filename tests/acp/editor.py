"""A small editor: it starts `hermes acp`, speaks JSON-RPC with it, and records every message of both sides."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from hermes.testing.home import TempHome
from hermes.testing.server import ScriptedServer
from tests.acp.schema_check import check_message

Answer = Callable[[Mapping[str, Any]], object]


class RpcFaultError(Exception):
    """An error that Hermes has answered with."""

    def __init__(self, fault: Mapping[str, Any]) -> None:
        super().__init__(fault["message"])
        self.code = fault["code"]
        self.message = fault["message"]
        self.data = fault.get("data")


class Editor:
    """The context starts the program and ends it. `answers` are the editor's answers by method."""

    def __init__(self, home: TempHome, *words: str, capabilities: Mapping[str, Any] | None = None) -> None:
        self.home = home
        self.updates: list[dict[str, Any]] = []
        """The updates of all sessions, in order."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """What Hermes has asked: the method and its parameters."""
        self.notified: list[dict[str, Any]] = []
        self.answers: dict[str, Answer] = {}
        self.capabilities = dict(capabilities or {})
        self._words = words
        self._last_id = 0
        self._pending: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.server: ScriptedServer | None = None
        """The model's server, where a test looks at it."""
        self.process: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hermes",
            "acp",
            *self._words,
            cwd=self.home.cwd,
            env=self.home.environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=None,
            limit=1 << 26,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()

    async def leave(self) -> int:
        """Go away as an editor does, by closing the streams; return the program's exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            async with asyncio.timeout(20):
                code = await self.process.wait()
        except TimeoutError:
            self.process.kill()
            raise
        await self._reading
        return code

    async def begin(self, **more: Any) -> dict[str, Any]:
        """Initialize, and return what Hermes says of itself."""
        params = {"protocolVersion": 1, "clientCapabilities": self.capabilities, **more}
        return await self.request("initialize", params)

    async def open_session(self, **more: Any) -> str:
        """Initialize, create a session in the working folder, and return its id."""
        await self.begin()
        made = await self.request("session/new", {"cwd": str(self.home.cwd), "mcpServers": [], **more})
        return made["sessionId"]

    async def prompt(self, session_id: str, text: str, *blocks: Mapping[str, Any]) -> str:
        """Send a prompt and return why its turn ended."""
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}, *blocks]}
        return (await self.request("session/prompt", params))["stopReason"]

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask Hermes, and return its result. Raises RpcFaultError."""
        _, answer = self.send_request(method, params)
        async with asyncio.timeout(60):
            return await answer

    def send_request(self, method: str, params: Mapping[str, Any]) -> "tuple[int, asyncio.Future[Any]]":
        """Send a request; return its id and the future of its result."""
        self._last_id += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[self._last_id] = method, answer
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id, answer

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell Hermes something."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def send_line(self, line: bytes) -> None:
        """Send a line as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")

    async def wait_for(self, is_there: Callable[[], object], seconds: float = 30.0) -> None:
        """Wait until something is there."""
        async with asyncio.timeout(seconds):
            while not is_there():
                self._changed.clear()
                await self._changed.wait()

    def list_updates(self, kind: str) -> list[dict[str, Any]]:
        """Return the updates of a kind."""
        return [one for one in self.updates if one["sessionUpdate"] == kind]

    def join_text(self, kind: str = "agent_message_chunk") -> str:
        """Return the text of all chunks of a kind."""
        return "".join(one["content"].get("text", "") for one in self.list_updates(kind))

    def find_calls(self) -> dict[str, dict[str, Any]]:
        """Return the calls by id, each as all updates together leave it."""
        found: dict[str, dict[str, Any]] = {}
        for one in self.updates:
            if one["sessionUpdate"] in ("tool_call", "tool_call_update"):
                found.setdefault(one["toolCallId"], {}).update(one)
        return found

    def _send(self, message: Mapping[str, Any]) -> None:
        self.send_line(json.dumps(message).encode())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self._take(json.loads(line))
            self._changed.set()
        for _, answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the program has ended"))
        self._changed.set()

    def _take(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            method, answer = self._pending.pop(message["id"], ("", None))
            check_message(message, method=method)
            if answer is None:
                self.notified.append(message)
            elif "error" in message:
                answer.set_exception(RpcFaultError(message["error"]))
            else:
                answer.set_result(message["result"])
            return
        check_message(message, method=message["method"])
        if "id" not in message:
            self.notified.append(message)
            if message["method"] == "session/update":
                self.updates.append(message["params"]["update"])
            return
        self.asked.append((message["method"], message["params"]))
        answer = self.answers.get(message["method"])
        if answer is None:
            fault = {"code": -32601, "message": "not offered"}
            self._send({"jsonrpc": "2.0", "id": message["id"], "error": fault})
            return
        task = asyncio.create_task(self._answer(message, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: Mapping[str, Any], answer: Answer) -> None:
        result = answer(message["params"])
        if asyncio.iscoroutine(result):
            result = await result
        self.send_line(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())


def allow(option: str = "allow_once") -> Answer:
    """Return an answer to every question about a call: this option."""
    return lambda _params: {"outcome": {"outcome": "selected", "optionId": option}}
