"""`AIAgent` in the hands of somebody in a hurry: nothing hangs, leaks or comes as somebody else's exception."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes import AIAgent
from hermes.core.errors import UsageError
from hermes.testing.home import TempHome
from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[TempHome]:
    server = ScriptedServer(ScriptedModel(lambda _: Say("answer")))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    with TempHome.for_server(server.url) as made:
        for name, value in made.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(made.cwd)
        yield made
    asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def test_threads_that_begin_at_once_share_one_session_and_leave_no_thread(home: TempHome) -> None:
    before = threading.active_count()
    agent = AIAgent()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(agent.chat, "abcd")) == ["answer"] * 4
    agent.close()
    assert threading.active_count() == before
    assert len(list((home.hermes / "run").glob("*.lock"))) == 1


@pytest.mark.parametrize("history", [[None], ["x"], "text", {"role": "user"}, 5, [{"role": "banana"}]])
def test_a_history_of_nonsense_is_refused_and_the_agent_goes_on(home: TempHome, history: object) -> None:
    with AIAgent() as agent:
        assert agent.chat("x") == "answer"
        with pytest.raises(UsageError):
            agent.run_conversation("y", conversation_history=history)  # type: ignore[arg-type]
        assert agent.chat("z") == "answer"


def test_a_history_with_a_value_that_is_no_json_is_refused(home: TempHome) -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
    history = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a", "content": object()}]
    with AIAgent() as agent, pytest.raises(UsageError):
        agent.run_conversation("y", conversation_history=history)


def test_a_history_whose_calls_share_an_id_stays_legal(home: TempHome) -> None:
    calls = [{"id": "a", "function": {"name": name, "arguments": "{}"}} for name in ("f", "g")]
    with AIAgent() as agent:
        result = agent.run_conversation("y", conversation_history=[{"role": "assistant", "tool_calls": calls}])
    assert result["final_response"] == "answer"


def test_a_callback_that_asks_or_closes_its_own_agent_is_told_so(home: TempHome) -> None:
    told: list[str] = []
    with AIAgent() as agent:

        def misuse(_: str) -> None:
            for act in (agent.close, lambda: agent.chat("inner")):
                with pytest.raises(UsageError) as caught:
                    act()
                told.append(str(caught.value))

        agent.stream_delta_callback = misuse
        assert agent.chat("x") == "answer"
    assert "own callback" in told[0]


@pytest.mark.parametrize("name", ["../../evil", "a/b", "x" * 300, "\ud83d", "a\0b", "..", " "])
def test_a_session_id_that_cannot_name_a_file_is_refused(home: TempHome, name: str) -> None:
    with AIAgent(session_id=name) as agent, pytest.raises(UsageError):
        agent.chat("x")


@pytest.mark.parametrize("last", ["", "import sys; sys.exit(0)"])
def test_an_agent_that_is_never_closed_lets_the_interpreter_end_quietly(home: TempHome, last: str) -> None:
    script = f"from hermes import AIAgent\nagent = AIAgent()\nprint(agent.chat('x'))\n{last}\n"
    done = subprocess.run(
        [sys.executable, "-c", script], env=home.environ, cwd=home.cwd, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"answer\n", b"")
