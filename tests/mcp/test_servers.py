"""MCP servers as programs and over HTTP: well behaved ones made with the official SDK, and others."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.execution.line_program import MAX_LOG_BYTES, MessageLines
from hermes.execution.supervisor import Supervisors
from hermes.mcp.definitions import McpToolDefinition
from hermes.mcp.rpc import McpRpcError
from hermes.mcp.server import McpServer
from hermes.mcp.server_spec import McpServerSpec
from hermes.mcp.servers import McpEnvironment, McpServers
from hermes.mcp.tools import to_tool_output

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
CANARY = "canary-" + os.urandom(8).hex()


def spec(*args: str, **fields: object) -> McpServerSpec:
    values = {
        "name": "t",
        "command": sys.executable,
        "args": ("-I", str(HERE / "broken_server.py"), *args),
        "folder": "/",
    }
    return McpServerSpec(**{**values, **fields})  # type: ignore[arg-type]


def oracle(transport: str, protocol: str) -> McpServerSpec:
    return spec(args=(str(HERE / "oracle_server.py"), transport), protocol=protocol)


@asynccontextmanager
async def running(
    *specs: McpServerSpec, folder: Path, environ: Mapping[str, str] | None = None
) -> AsyncIterator[McpServers]:
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "OPENAI_API_KEY": CANARY, "LC_X": "c", "MY_TOKEN": CANARY}
    wardens = Supervisors(os.environ)
    around = McpEnvironment(
        environ=environ or given, supervisors=wardens, logs=folder / "logs", known_file=folder / "known.json"
    )
    servers = McpServers(specs, around)
    servers.start()
    try:
        yield servers
    finally:
        await servers.close()
        await wardens.close()


@asynccontextmanager
async def one(made: McpServerSpec, folder: Path) -> AsyncIterator[McpServer]:
    async with running(made, folder=folder) as servers:
        (server,) = servers.servers
        await server.first_attempt.wait()
        yield server


def tool(server: McpServer, name: str) -> McpToolDefinition:
    return next(found for found in server.tools if found.sent_name == name)


async def call(server: McpServer, name: str, **arguments: object) -> str:
    return to_tool_output(await server.call_tool(tool(server, name), arguments), "t").text


async def call_in_time(server: McpServer, name: str) -> str:
    """Call until the answer comes within the server's time, which is short: a busy machine takes longer."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await call(server, name)
            except ToolError as error:
                if "did not answer within" not in str(error):
                    raise


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that nobody tells: a process's end, tools that were read again."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until_ended(*pids: int) -> None:
    await until(lambda: all(ended(pid) for pid in pids))


@pytest.fixture(params=["sse", "json"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    arguments = [sys.executable, str(HERE / "oracle_server.py"), request.param]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        process.kill()


async def use_the_oracle(server: McpServer) -> None:
    assert server.problem == ""
    assert [found.sent_name for found in server.tools] == ["add", "broken", "grow", "picture", "slow"]
    assert tool(server, "add").reads_only and not tool(server, "slow").reads_only
    sums = await asyncio.gather(*(call(server, "add", a=number, b=1) for number in range(30)))
    assert sums == [str(number + 1) for number in range(30)]
    failed = to_tool_output(await server.call_tool(tool(server, "broken"), {}), "t")
    assert failed.status is ToolStatus.ERROR and failed.text == "Error executing tool broken"
    shown = to_tool_output(await server.call_tool(tool(server, "picture"), {}), "t")
    assert [image.media_type for image in shown.images] == ["image/png"] and shown.text == "[1 picture]"
    calling = asyncio.create_task(call(server, "slow", seconds=600))
    await asyncio.wait({calling}, timeout=0.2)
    calling.cancel()
    await asyncio.wait({calling}, timeout=60)
    assert calling.cancelled()
    assert await call(server, "slow", seconds=0.01) == "waited"
    assert await call(server, "grow") == "done"
    await until(lambda: "grown" in [found.sent_name for found in server.tools])
    assert await call(server, "grown") == "grown"


PROTOCOLS = [
    ("", "2026-07-28"),
    ("2026-07-28", "2026-07-28"),
    ("2025-11-25", "2025-11-25"),
    ("2025-03-26", "2025-03-26"),
]


@pytest.mark.parametrize(("protocol", "agreed"), PROTOCOLS)
async def test_the_official_server_over_standard_streams(protocol: str, agreed: str, tmp_path: Path) -> None:
    async with one(oracle("stdio", protocol), tmp_path) as server:
        await use_the_oracle(server)
        assert server.offer.version == agreed


@pytest.mark.parametrize(("protocol", "agreed"), PROTOCOLS)
async def test_the_official_server_over_http(protocol: str, agreed: str, address: str, tmp_path: Path) -> None:
    async with one(spec(command="", url=address, protocol=protocol), tmp_path) as server:
        await use_the_oracle(server)
        assert server.offer.version == agreed


async def test_calls_side_by_side_get_their_own_answers(tmp_path: Path) -> None:
    async with one(spec(), tmp_path) as server:
        answers = await asyncio.gather(*(call(server, "echo", number=number) for number in range(200)))
        assert [json.loads(text)["number"] for text in answers] == list(range(200))


async def test_a_cancelled_call_is_taken_back(tmp_path: Path) -> None:
    async with one(spec(), tmp_path) as server:
        calling = asyncio.create_task(call(server, "slow"))
        await asyncio.sleep(0)
        await call(server, "echo")  # read after the other one
        calling.cancel()
        await asyncio.wait({calling}, timeout=60)
        assert calling.cancelled()
        await call(server, "echo")
        assert json.loads(await call(server, "cancelled")) == [
            4
        ]  # after `server/discover`, `initialize` and `tools/list`


async def test_a_call_that_takes_too_long_says_so(tmp_path: Path) -> None:
    async with one(spec(timeout=0.1), tmp_path) as server:
        with pytest.raises(ToolError, match=r"The MCP server t: it did not answer within 0\.1 s"):
            await call(server, "slow")
        assert await call_in_time(server, "echo") == "{}"


async def test_a_program_gets_few_variables_and_its_own(tmp_path: Path) -> None:
    async with one(spec(env={"SERVER_TOKEN": "mine"}), tmp_path) as server:
        found = json.loads(await call(server, "env"))
    assert CANARY not in json.dumps(found)
    kept = set(found) - {"PWD", "SHLVL", "_", "OLDPWD", "LC_CTYPE"}
    assert kept == {"PATH", "HOME", "LC_X", "SERVER_TOKEN"} and found["SERVER_TOKEN"] == "mine"


async def test_nothing_is_left_of_a_closed_server(tmp_path: Path) -> None:
    async with one(spec("stubborn"), tmp_path) as server:
        pids = [int(pid) for pid in (await call(server, "spawn")).split()]
        assert not any(ended(pid) for pid in pids)
    await until_ended(*pids)


async def test_nothing_is_left_of_a_server_that_died(tmp_path: Path) -> None:
    async with one(spec(), tmp_path) as server:
        pids = [int(pid) for pid in (await call(server, "spawn")).split()]
        with pytest.raises(ToolError, match=r"ended with exit code 7"):
            await call(server, "die")
        await until_ended(*pids)
        assert (tmp_path / "logs" / "mcp-t.log").read_text() == "I die now\n"


async def test_calls_under_way_are_told_of_a_death_and_the_next_one_starts_it_again(tmp_path: Path) -> None:
    async with one(spec(), tmp_path) as server:
        waiting = [asyncio.create_task(call(server, "slow")) for _ in range(3)]
        await call(server, "echo")
        with pytest.raises(ToolError):
            await call(server, "die")
        for task in waiting:
            with pytest.raises(ToolError, match="exit code 7"):
                await task
        assert await call(server, "echo", again=1) == '{"again": 1}'


async def test_one_that_is_another_than_was_agreed_to_is_not_started_again(tmp_path: Path) -> None:
    """A session may write the program of a server of its project, and then make the server end."""
    async with one(spec(), tmp_path) as server:
        server.find_change = lambda: "it has changed"
        assert await call(server, "echo", still=1) == '{"still": 1}'
        with pytest.raises(ToolError, match="exit code 7"):
            await call(server, "die")
        with pytest.raises(ToolError, match="it has changed"):
            await call(server, "echo")
        assert server.problem == "it has changed"


async def test_one_that_tells_something_else_of_a_tool_is_not_sent_the_call(tmp_path: Path) -> None:
    """A yes is for the tool as it was told of; a server may end before the call, and tell something else then."""
    definitions = tmp_path / "definitions.json"

    def define(said: str) -> None:
        told = [{"name": name, "description": said, "inputSchema": {"type": "object"}} for name in ("echo", "die")]
        definitions.write_text(json.dumps(told))

    define("Harmless.")
    async with one(spec("good", str(definitions)), tmp_path) as server:
        before = tool(server, "echo")
        define("Sends all files away.")
        with pytest.raises(ToolError, match="exit code 7"):
            await call(server, "die")
        with pytest.raises(ToolError, match="it has changed mcp__t__echo, look for it again"):
            await server.call_tool(before, {})
        assert await call(server, "echo", still=1) == '{"still": 1}'


async def test_a_server_that_only_asks_does_not_last_for_ever(tmp_path: Path) -> None:
    async with one(spec(timeout=0.1), tmp_path) as server:
        async with asyncio.timeout(30):  # twenty times 0.1 s, on a busy machine
            with pytest.raises(ToolError, match=r"it did not answer within 0\.1 s"):
                await call(server, "nag")


async def test_a_server_that_keeps_dying_is_left_alone_for_a_while(tmp_path: Path) -> None:
    async with one(spec("dies", connect_timeout=60.0), tmp_path) as server:
        assert "exit code 3" in server.problem
        for _ in range(2):
            with pytest.raises(ToolError, match="exit code 3"):
                await server.connect()
        with pytest.raises(ToolError, match=r"left alone for [345]?\d s more|left alone for 60 s more"):
            await server.connect()


@pytest.mark.parametrize(
    ("behaviour", "fields", "problem"),
    [
        ("mute", {"connect_timeout": 0.2}, "it was not ready within 0.2 s"),
        ("old", {}, "it speaks version '1999-01-01' of the protocol"),
        ("good", {"command": "/no/such/program"}, "cannot be found (exit code 127)"),
        (
            "good",
            {"command": "/bin/sh", "args": ("-c", "no-such-tool")},
            "ended with exit code 127; its output is in",
        ),
        ("good", {"folder": "/no/such/folder"}, "could not be started in /no/such/folder"),
        ("good", {"settings_problem": "mcp_servers.t is wrong"}, "mcp_servers.t is wrong"),
        ("good", {"command": "", "url": "ftp://x"}, "not an http or https address"),
        ("good", {"command": "", "url": "http://127.0.0.1:9/mcp"}, "Nothing answers at 127.0.0.1:9"),
    ],
)
async def test_what_is_wrong_is_said(
    behaviour: str, fields: Mapping[str, object], problem: str, tmp_path: Path
) -> None:
    async with one(spec(behaviour, **fields), tmp_path) as server:
        assert problem in server.problem and server.tools == ()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("huge", "a message of more than 16 MB"),
        ("flood", "messages that nobody asked for"),
        ("answers", "messages that nobody asked for"),
        ("deep", "not valid JSON, or nested too deeply"),
        ("nan", "not valid JSON, or nested too deeply"),
    ],
)
async def test_a_bad_answer_ends_its_call_and_the_next_one_works(name: str, why: str, tmp_path: Path) -> None:
    async with one(spec(timeout=120.0), tmp_path) as server:
        with pytest.raises(ToolError, match=why):
            await call(server, name)
        assert await call(server, "echo") == "{}"


async def test_a_flood_does_not_stop_everything_else(tmp_path: Path) -> None:
    async with one(spec(), tmp_path) as server:
        flooding = asyncio.create_task(call(server, "flood"))
        turns, last = [0.0] * 5, time.thread_time()
        while not flooding.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            turns.append(now - last)
            last = now
        turns.sort()
        assert turns[-1] < 10 * turns[-5]
        with pytest.raises(ToolError):
            flooding.result()


async def test_noise_is_passed_over_and_words_of_errors_are_bounded(tmp_path: Path) -> None:
    async with one(spec(), tmp_path) as server:
        assert await call(server, "noise", a=1) == '{"a": 1}'
        assert await call(server, "half") == '"\ufffd"'
    log = tmp_path / "logs" / "mcp-t.log"
    assert 0 < log.stat().st_size <= MAX_LOG_BYTES and log.stat().st_mode & 0o777 == 0o600


async def test_a_server_that_does_not_read_cannot_fill_the_memory(tmp_path: Path) -> None:
    async with one(spec(timeout=0.05), tmp_path) as server:
        with pytest.raises(ToolError):
            await call(server, "deaf")
        said = []
        async with asyncio.timeout(120):  # a busy machine sends less in that time
            while "it does not read what it is sent." not in said:
                with pytest.raises(ToolError) as raised:
                    await call(server, "echo", text="x" * 8_000_000)
                said.append(str(raised.value).partition(": ")[2])
        assert said[0] == "it did not answer within 0.05 s."


async def test_what_a_server_asks_for_is_not_supported(tmp_path: Path) -> None:
    async with one(spec(), tmp_path) as server:
        assert '"id":"s1","error":{"code":-32601' in await call(server, "ask")


async def test_a_long_list_comes_in_pages_and_an_endless_one_ends(tmp_path: Path) -> None:
    async with one(spec("pages"), tmp_path) as server:
        assert len(server.tools) == 20
    async with one(spec("endless"), tmp_path) as server:
        assert len(server.tools) == 100


async def test_only_the_tools_that_are_wanted(tmp_path: Path) -> None:
    async with one(spec(include=("e*", "slow"), exclude=("env",)), tmp_path) as server:
        assert [found.sent_name for found in server.tools] == ["echo", "slow"]


async def test_a_server_that_changes_its_tools_all_the_time_is_read_now_and_then(tmp_path: Path) -> None:
    async with one(spec(), tmp_path) as server:
        before = tool(server, "echo")
        await call(server, "rename", to="Another")
        await until(lambda: tool(server, "echo") != before)
        assert tool(server, "echo").description == "Another: echo."
        assert tool(server, "echo").digest != before.digest


async def test_results_of_every_kind(tmp_path: Path) -> None:
    async with one(spec(), tmp_path) as server:
        shown = to_tool_output(await server.call_tool(tool(server, "picture"), {}), "t")
        assert len(shown.images) == 1
        assert shown.text.splitlines() == [
            "[image, text/html, 56 characters that are not shown]",
            "[audio, a/b, 2 characters that are not shown]",
            "[1 picture]",
        ]
        assert await call(server, "structured") == '{"a": 1}'
        assert await call(server, "structured", b=2) == '{"a": 1}\n{"b": 2}'
        with pytest.raises(McpRpcError, match="I refuse"):
            await call(server, "refuse")
    for bad in (b"null", b"[]", b'{"content":5}', b"[" * 5000):
        assert to_tool_output(msgspec.Raw(bad), "t").status is ToolStatus.ERROR
    assert to_tool_output(msgspec.Raw(b'{"content":[5,{"type":"text"}]}'), "t").text == "[a part that cannot be read]\n"


def test_lines_are_cut_wherever_they_come() -> None:
    lines = MessageLines(limit=10)
    assert [lines.feed(piece) for piece in (b"a", b"b\n\nc\r", b"\nd")] == [[], [b"ab"], [b"c"]]
    with pytest.raises(ValueError, match=r"^$"):
        lines.feed(b"x" * 11)


async def test_where_there_are_no_wardens_a_program_runs_all_the_same(tmp_path: Path) -> None:
    wardens = Supervisors(os.environ)
    await wardens.close()
    around = McpEnvironment(environ=os.environ, supervisors=wardens, logs=tmp_path, known_file=tmp_path / "known.json")
    servers = McpServers([spec("stubborn")], around)
    (server,) = servers.servers
    await server.connect()
    pids = [int(pid) for pid in (await call(server, "spawn")).split()]
    await servers.close()
    await until_ended(*pids)
