"""`AIAgent`, the synchronous face: options, results, callbacks, interrupts, histories."""

import asyncio
import gc
import inspect
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes import AIAgent
from hermes.core.errors import HermesError
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Ending, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.sessions.served_agent import Served, make_agent


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[TempHome]:
    with TempHome() as made:
        for name, value in made.environ.items():
            monkeypatch.setenv(name, value)
        yield made


def test_the_signature_shows_the_documented_options_and_making_one_opens_nothing(home: TempHome) -> None:
    parameters = inspect.signature(AIAgent).parameters
    assert parameters["max_iterations"].default is None
    assert parameters["tool_delay"].default is None
    documented = {
        "base_url", "api_key", "provider", "model", "api_mode", "enabled_toolsets", "disabled_toolsets",
        "reasoning_config", "credential_pool", "fallback_model", "platform", "session_id", "tool_progress_callback",
        "thinking_callback", "reasoning_callback", "clarify_callback", "step_callback", "stream_delta_callback",
        "tool_gen_callback", "status_callback", "approval_callback",
    }  # fmt: skip
    assert documented <= set(parameters)
    AIAgent(base_url="http://127.0.0.1:9/v1", api_key="x", model="m")
    assert list(home.hermes.iterdir()) == []


def test_chat_returns_the_answer_and_the_next_message_sees_the_first(home: TempHome) -> None:
    with Served([Say("x"), Say("y")]) as server, make_agent(server, home) as made:
        assert made.chat("one") == "x"
        assert made.chat("two") == "y"
        assert [message["role"] for message in server.requests[1].messages] == ["system", "user", "assistant", "user"]


def test_the_result_has_the_known_keys(home: TempHome) -> None:
    (home.cwd / "a").write_text("apple")
    replies: list[Reply] = [Say(calls=(Call("read_file", {"path": "a"}),)), Say("done", reasoning="because")]
    with Served(replies) as server, make_agent(server, home) as made:
        result = made.run_conversation("look")
    assert result["final_response"] == "done"
    assert (result["completed"], result["turn_exit_reason"], result["api_calls"]) == (True, "text_response", 2)
    assert (result["failed"], result["interrupted"], result["partial"]) == (False, False, False)
    assert result["last_reasoning"] == "because"
    assert result["session_id"] == made.session_id
    roles = [message["role"] for message in result["messages"]]  # type: ignore[attr-defined]
    assert roles == ["user", "assistant", "tool", "assistant"]


def test_a_session_is_loaded_by_its_id(home: TempHome) -> None:
    with Served([Say("x"), Say("y")]) as server:
        with make_agent(server, home, session_id="mine") as made:
            made.chat("first words")
        with make_agent(server, home, session_id="mine") as made:
            made.chat("more")
        assert "first words" in server.requests[1].body.decode()
        assert server.requests[0].system == server.requests[1].system


def test_a_given_history_is_made_legal_and_sent(home: TempHome) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "todo", "arguments": "{}"}}
    history = [
        {"role": "system", "content": "not this one"},
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "tool", "tool_call_id": "nobody", "content": "orphan"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "user", "content": "c"},
    ]
    with Served([Say("ok")]) as server, make_agent(server, home) as made:
        result = made.run_conversation("now", "You are a pirate.", history)
        sent = server.requests[0]
    assert result["completed"] is True
    assert sent.system == "You are a pirate."
    assert [message["role"] for message in sent.messages] == [
        "system", "user", "assistant", "tool", "user", "assistant", "user",
    ]  # fmt: skip
    assert "orphan" not in sent.body.decode()


def test_the_callbacks_are_called(home: TempHome) -> None:
    heard: list[str] = []
    replies: list[Reply] = [
        Say("", reasoning="let me see", calls=(Call("terminal", {"command": "rm -r old"}),)),
        Say("a long answer in pieces", chunk=4),
    ]
    (home.cwd / "old").mkdir()
    (home.cwd / "old/.env").write_text("no copy is made of it")
    with Served(replies) as server:
        made = make_agent(
            server,
            home,
            tool_progress_callback=lambda event, name, preview: heard.append(f"{event} {name}"),
            reasoning_callback=lambda text: heard.append("reasoning"),
            stream_delta_callback=lambda text: heard.append(f"delta {text}"),
            tool_gen_callback=lambda name: heard.append(f"generating {name}"),
            thinking_callback=lambda text: heard.append(f"thinking {bool(text)}"),
            status_callback=lambda state, detail: heard.append(f"status {state}"),
            step_callback=lambda result: heard.append(f"step {result['completed']}"),
            approval_callback=lambda command, reason: heard.append(f"asked {command}") is None,
        )
        with made:
            made.chat("go")
    assert (
        "".join(line.removeprefix("delta ") for line in heard if line.startswith("delta")) == "a long answer in pieces"
    )
    assert heard.index("generating terminal") < heard.index("asked rm -r old") < heard.index("tool.started terminal")
    assert heard.index("tool.started terminal") < heard.index("tool.completed terminal")
    for line in ("reasoning", "thinking True", "thinking False", "status thinking", "status executing", "status idle"):
        assert line in heard
    assert heard[-1] == "step True"
    assert not (home.cwd / "old").exists()


def test_a_callback_that_fails_does_not_disturb_the_turn(home: TempHome) -> None:
    def fail(_: str) -> None:
        raise ValueError("the program's own mistake")

    with Served([Say("fine")]) as server, make_agent(server, home, stream_delta_callback=fail) as made:
        assert made.chat("go") == "fine"


def test_the_clarify_callback_answers_the_model(home: TempHome) -> None:
    replies: list[Reply] = [
        Say(calls=(Call("clarify", {"question": "Which?", "choices": ["apple", "banana"]}),)),
        Say("ok"),
    ]
    with Served(replies) as server:
        with make_agent(server, home, clarify_callback=lambda question, choices: choices[1]) as made:
            made.chat("go")
        assert "banana" in next(iter(server.requests[1].results.values()))


def test_interrupt_from_another_thread_stops_the_turn(home: TempHome) -> None:
    slow = Say("a slow answer", chunk=2, delivery=ReplyDelivery(ending=Ending.HANG, at=4))
    with Served([slow, Say("after")]) as server, make_agent(server, home) as made:
        started = threading.Event()
        made.stream_delta_callback = lambda text: started.set()
        stopper = threading.Thread(target=lambda: started.wait(10) and made.interrupt())
        stopper.start()
        result = made.run_conversation("go")
        stopper.join()
        assert (result["interrupted"], result["turn_exit_reason"]) == (True, "interrupted_by_user")
        assert made.is_interrupted
        assert made.chat("again") == "after"
        assert not made.is_interrupted


async def test_it_works_inside_a_running_loop(home: TempHome) -> None:
    async with ScriptedServer([Say("inside")]) as server:
        with make_agent(server, home) as made:
            assert await asyncio.to_thread(made.chat, "hi") == "inside"


def test_a_trajectory_is_written_where_asked_for(home: TempHome) -> None:
    with Served([Say("done")]) as server, make_agent(server, home, save_trajectories=True) as made:
        made.chat("work")
    files = list(Path(home.hermes / "trajectories").iterdir())
    document = json.loads(files[0].read_text())
    assert [message["role"] for message in document["messages"]] == ["system", "user", "assistant"]
    assert document["completed"] is True


def test_a_list_of_keys_is_a_pool(home: TempHome) -> None:
    keys = ["pool-" + "x" * 20 + str(number) for number in range(2)]
    (home.hermes / "config.yaml").write_text("credential_pool_strategies: {custom: round_robin}\n")
    with (
        Served([Say("x"), Say("y"), Say("z")]) as server,
        make_agent(server, home, api_key="", credential_pool=keys) as made,
    ):
        for _ in range(3):
            made.chat("go")
        seen = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
        assert seen == [keys[0], keys[1], keys[0]]
        assert not any(key in repr(made) for key in keys)
    with pytest.raises(HermesError, match="list of keys"):
        AIAgent(credential_pool="one")
    with pytest.raises(HermesError, match="api_key"):
        AIAgent(credential_pool=[{"key": "one"}])


def test_an_agent_that_is_dropped_ends_its_threads(home: TempHome, capfd: pytest.CaptureFixture[str]) -> None:
    before = set(threading.enumerate())
    with Served([Say("x")]) as server:
        served = set(threading.enumerate())
        assert make_agent(server, home).chat("one") == "x"
        gc.collect()
        for left in set(threading.enumerate()) - served:
            left.join(10)
            assert not left.is_alive()
    assert set(threading.enumerate()) <= before
    assert "Task was destroyed" not in capfd.readouterr().err


def test_arguments_of_a_turn_are_checked_before_it_begins(home: TempHome) -> None:
    with Served([]) as server, make_agent(server, home) as made:
        for given in ({"system_message": 3}, {"stream_callback": "print"}):
            with pytest.raises(HermesError, match="must be"):
                made.run_conversation("x", **given)  # type: ignore[arg-type]
        assert server.requests == []
