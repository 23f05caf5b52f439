"""`hermes -z` through the gateway that runs: what it says, returns and asks is what a process of its own would."""

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import Struct

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Fail, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import home_for
from tests.gateway.served_gateway import hermes, served
from tests.vendors.ntfy import Fake

pytestmark = pytest.mark.slow

RESET = Say(calls=(Call("terminal", {"command": "git push --force"}),))


class Rig(Struct):
    home: TempHome
    server: ScriptedServer
    gateway: asyncio.subprocess.Process


@asynccontextmanager
async def rig(*script: Reply) -> AsyncIterator[Rig]:
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with served(home) as process:
                yield Rig(home, server, process)


def served_here(it: Rig) -> int:
    lines = (it.home.hermes / "logs" / "gateway.log").read_text().splitlines()
    return sum(json.loads(line)["event"] == "oneshot" for line in lines)


async def test_the_same_answer_and_the_same_exit_codes() -> None:
    both = [Say("Hello back."), RESET, Say("I could not."), Fail(status=400, message="no")]
    async with rig(*both, *both) as it:
        asked = (("hello",), ("reset", "--no-input"), ("fail",))
        found = [[await hermes(it.home, "-z", *words, *more) for words in asked] for more in ((), ("--no-gateway",))]
        assert served_here(it) == 3
        assert found[0] == found[1]
        assert [code for code, _, _ in found[0]] == [0, 3, 1]
        assert found[0][0][1] == "Hello back.\n"
        assert "refused" in found[0][1][2]


async def test_the_callers_folder_and_environment_are_those_of_its_commands() -> None:
    told = Say(calls=(Call("terminal", {"command": "echo $PWD; echo of=$GOFLAGS"}),))
    async with rig(told, Say("done")) as it:
        other = it.home.root / "other"
        other.mkdir()
        env = {**it.home.environ, "GOFLAGS": "-the-caller"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes", "-z", "-"),
            cwd=other,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate(b"look around")
        assert out == b"done\n" and served_here(it) == 1
        body = it.server.requests[1].body.decode()
        assert str(other) in body and "of=-the-caller" in body
        assert "look around" in it.server.requests[0].last_user_text


async def test_ctrl_c_stops_the_turn() -> None:
    async with rig(Say("never", delivery=ReplyDelivery(delay=60))) as it:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes", "-z", "wait"),
            cwd=it.home.cwd,
            env=it.home.environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await it.server.wait_for(1)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert (process.returncode, out, err) == (130, b"", b"hermes: Stopped.\n")


async def test_who_goes_away_stops_its_turn() -> None:
    async with rig(Say("never", delivery=ReplyDelivery(delay=60)), Say("free again")) as it:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes", "-z", "wait"), cwd=it.home.cwd, env=it.home.environ
        )
        await it.server.wait_for(1)
        process.kill()
        await process.wait()
        assert (await hermes(it.home, "-z", "next", "-c"))[1] == "free again\n"


@pytest.mark.needs("git")
async def test_a_question_is_asked_on_the_callers_terminal() -> None:
    async with rig(RESET, Say("I did.")) as it:
        pid, terminal = pty.fork()
        if not pid:
            os.chdir(it.home.cwd)
            os.execve(sys.executable, [sys.executable, "-m", "hermes", "-z", "reset"], it.home.environ)
        seen = b""

        async def until(text: bytes) -> None:
            nonlocal seen
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(60):
                while text not in seen:
                    try:
                        seen += await loop.run_in_executor(None, os.read, terminal, 4096)
                    except OSError:  # the terminal is closed
                        break
            assert text in seen, seen.decode()

        await until(b"[o/")
        os.write(terminal, b"o\n")
        await until(b"I did.")
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        assert os.waitstatus_to_exitcode(status) == 0
        assert served_here(it) == 1
        assert "not a git repository" in it.server.requests[1].body.decode()


async def test_what_a_model_runs_gets_no_word_in() -> None:
    probe = """import socket
one = socket.socket(socket.AF_UNIX)
one.settimeout(5)
one.connect(open("where").read())
try:
    one.sendall(b'{"type":"status"}\\n')
    print("told", len(one.recv(64)))
except OSError:
    print("told nothing")
"""
    command = Call("terminal", {"command": f"{sys.executable} probe.py"})
    async with rig(Say(calls=(command,)), Say("done")) as it:
        (it.home.cwd / "probe.py").write_text(probe)
        (it.home.cwd / "where").write_text(str(it.home.hermes / "run" / "gateway.sock"))
        outside = await it.home.run(sys.executable, "probe.py")
        assert outside.stdout == "told 64\n", outside
        code, out, err = await hermes(it.home, "-z", "look", "--no-input", "--allow", f"{sys.executable} probe.py")
        assert (code, out) == (0, "done\n"), err
        assert "told nothing" in it.server.requests[1].body.decode() or "told 0" in it.server.requests[1].body.decode()


async def test_there_is_an_end_to_how_many_are_served() -> None:
    async with rig() as it:
        path = str(it.home.hermes / "run" / "gateway.sock")
        peers = [await asyncio.open_unix_connection(path) for _ in range(64)]
        peers[0][1].write(b'{"type":"status"}\n')
        assert await peers[0][0].readline()
        reader, writer = await asyncio.open_unix_connection(path)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        for _, one in [*peers, (reader, writer)]:
            one.close()
        await asyncio.gather(*(one.wait_closed() for _, one in peers), return_exceptions=True)


async def test_what_needs_a_process_of_its_own_gets_one() -> None:
    async with rig(*[Say("ok")] * 4) as it:
        assert (await hermes(it.home, "-z", "one", "--usage-file", "used.json"))[0] == 0
        assert (it.home.cwd / "used.json").exists()
        it.home.more["HERMES_NO_GATEWAY"] = "1"
        assert (await hermes(it.home, "-z", "two"))[0] == 0
        it.home.more.clear()
        assert (await hermes(it.home, "-z", "three", "--max-turns", "none"))[0] == 2
        assert (await hermes(it.home, "-z", "  "))[0] == 2
        assert served_here(it) == 0
        it.gateway.kill()
        await it.gateway.wait()
        assert (it.home.hermes / "run" / "gateway.sock").exists()
        assert (await hermes(it.home, "-z", "four"))[1] == "ok\n"


async def test_what_is_piped_and_json_go_through_it_too() -> None:
    written = Say(calls=(Call("write_file", {"path": "out.txt", "content": "x"}),))
    async with rig(Say("It is a log."), written, Say("Written."), Fail(status=401)) as it:
        code, out, err = await hermes(it.home, "-z", "what is this", stdin=b"line one\n")
        assert (code, out, err) == (0, "It is a log.\n", "")
        assert "[Standard input, 1 lines]\n```\nline one\n```" in it.server.requests[0].last_user_text
        code, out, err = await hermes(it.home, "-z", "write", "--stream-json")
        lines = [json.loads(line) for line in out.splitlines()]
        assert (code, err, lines[0]["type"], lines[-1]["type"]) == (0, "", "start", "result")
        assert {"tool_started", "tool_ended", "text_delta", "request_ended"} <= {line["type"] for line in lines}
        assert (lines[-1]["answer"], lines[-1]["files_changed"]) == ("Written.", ["out.txt"])
        assert (lines[-1]["outcome"], lines[-1]["calls"], lines[0]["model"]) == ("text_response", 2, "mock-model")
        code, out, _ = await hermes(it.home, "fail", "--output-format", "json", "-z")
        assert code == 2
        code, out, _ = await hermes(it.home, "please fail", "--output-format", "json")
        assert (code, json.loads(out)["outcome"]) == (1, "provider_error")
        assert served_here(it) == 3


async def test_a_stop_is_the_last_line_of_its_json() -> None:
    async with rig(Say("never", delivery=ReplyDelivery(delay=60))) as it:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes", "-z", "wait", "--stream-json"),
            cwd=it.home.cwd,
            env=it.home.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        await it.server.wait_for(1)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            out, _ = await process.communicate()
        assert process.returncode == 130
        assert json.loads(out.splitlines()[-1])["outcome"] == "interrupted_by_user"
