"""A home with sessions, and programs that are served from it."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from hermes.mcp.revisions import META_PREFIX, STATELESS_VERSION
from hermes.testing.home import TempHome

META = {f"{META_PREFIX}protocolVersion": STATELESS_VERSION, f"{META_PREFIX}clientCapabilities": {}}
"""What a request of the stateless revision says of itself."""


class Program:
    """A program that has started `hermes mcp serve` and speaks in lines with it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.notified: list[dict[str, Any]] = []
        self._last_id = 0

    def send_line(self, line: bytes) -> None:
        """Send a line as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")

    def send_request(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a request, and return its id."""
        self._last_id += 1
        body = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params or {}}
        self.send_line(json.dumps(body).encode())
        return self._last_id

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self.send_line(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    async def read_message(self) -> dict[str, Any]:
        """Return the next message."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            line = await self.process.stdout.readline()
        assert line, "the server is gone"
        return json.loads(line)

    async def read_answer(self, number: int | None) -> dict[str, Any]:
        """Return the answer of that id; notifications before it are kept."""
        while True:
            message = await self.read_message()
            if "method" in message:
                self.notified.append(message)
            elif message["id"] == number:
                return message

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return its answer."""
        return await self.read_answer(self.send_request(method, params))

    async def initialize(self, version: str = "2025-11-25") -> dict[str, Any]:
        """Begin a session, and return what the server says of itself."""
        told = await self.request("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {}})
        self.notify("notifications/initialized", {})
        return told["result"]

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool by the stateless revision, and return its result."""
        params = {"name": name, "arguments": arguments, "_meta": {**META, "progressToken": "p"}}
        answer = await self.request("tools/call", params)
        assert "result" in answer, answer
        return answer["result"]

    async def leave(self) -> int:
        """Close the streams and return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(20):
            return await self.process.wait()


@asynccontextmanager
async def serve_program(home: TempHome, *words: str) -> AsyncIterator[Program]:
    """Start `hermes mcp serve` in a home; it is ended with the context."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hermes",
        "mcp",
        "serve",
        *words,
        cwd=home.cwd,
        env=home.environ,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    program = Program(process)
    try:
        yield program
        await program.leave()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def count_processes(mark: str) -> int:
    """Count the processes whose command line holds a mark."""
    found = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit():
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    found += mark.encode() in file.read()
        except OSError:
            continue
    return found
