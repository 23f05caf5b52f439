"""A history that a program hands in is never ignored: it goes on in its session, or begins a branch."""

from collections.abc import Iterator

import pytest

from hermes import AIAgent
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.sessions.served_agent import Served, make_agent

Rows = list[dict[str, object]]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[TempHome]:
    with TempHome() as made:
        for name, value in made.environ.items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with Served(ScriptedModel(lambda request: Say(f"answer to {request.messages[-1]['content']}"))) as made:
        yield made


def say(role: str, content: str) -> dict[str, object]:
    return {"role": role, "content": content}


def talk(agent: AIAgent, *texts: str) -> Rows:
    for text in texts:
        result = agent.run_conversation(text)
    return list(result["messages"])  # type: ignore[call-overload]


def said(server: ScriptedServer) -> list[str]:
    """Return what the last request carries of the conversation, without notes."""
    return [
        str(one["content"][0]["text"] if isinstance(one["content"], list) else one["content"]).split("\n")[0]
        for one in server.requests[-1].messages
        if one["role"] != "system"
    ]


def test_the_same_history_goes_on_in_its_session(server: ScriptedServer, home: TempHome) -> None:
    with make_agent(server, home, session_id="mine") as agent:
        rows = talk(agent, "one", "two")
    system = say("system", "not this one")
    for change in (lambda rows: rows, lambda rows: [system, *rows], lambda rows: [say("user", " one\n"), *rows[1:]]):
        with make_agent(server, home, session_id="mine") as agent:
            result = agent.run_conversation("next", conversation_history=change(rows))
            assert (result["session_id"], result["branched_from"]) == ("mine", None)
            rows = talk(agent, "and")
    assert said(server)[:3] == ["one", "answer to one", "two"] and len(said(server)) == 15


def test_results_of_tools_may_be_left_out_but_not_changed(home: TempHome) -> None:
    (home.cwd / "a").write_text("apple")
    replies = [Say("let me see", calls=(Call("read_file", {"path": "a"}),)), *[Say("done")] * 5]
    with Served(replies) as server:
        with make_agent(server, home, session_id="mine") as agent:
            rows = talk(agent, "look")
            short = [one for one in rows if one["role"] != "tool"]
            assert agent.run_conversation("on", conversation_history=short)["session_id"] == "mine"
            assert "apple" in server.requests[-1].body.decode()
            rows = talk(agent, "again")
            forged = [{**one, "content": "pear"} if one["role"] == "tool" else one for one in rows]
            result = agent.run_conversation("what was it?", conversation_history=forged)
        assert result["branched_from"] == "mine" and result["session_id"] != "mine"
        body = server.requests[-1].body.decode()
        assert "pear" in body and "apple" not in body


def test_a_history_that_differs_begins_a_branch_and_the_session_stays(server: ScriptedServer, home: TempHome) -> None:
    other = [say("user", "H1"), say("assistant", "H2")]
    with make_agent(server, home, session_id="mine") as agent:
        talk(agent, "one")
        result = agent.run_conversation("now", conversation_history=other)
        branch = str(result["session_id"])
        assert said(server) == ["H1", "H2", "now"]
        assert result["branched_from"] == "mine" and agent.session_id == branch
        agent.chat("more")
        assert said(server) == ["H1", "H2", "now", "answer to now", "more"]
    with make_agent(server, home, session_id="mine") as agent:
        agent.chat("back")
        assert said(server) == ["one", "answer to one", "back"]
    with make_agent(server, home, session_id="mine") as agent:
        assert agent.run_conversation("fresh", conversation_history=[])["branched_from"] == "mine"
        assert said(server) == ["fresh"]


def test_a_beginning_of_the_session_is_a_branch_that_the_cache_knows(server: ScriptedServer, home: TempHome) -> None:
    with make_agent(server, home, session_id="mine") as agent:
        rows = talk(agent, "one", "two", "three")
        second = server.requests[1]
        result = agent.run_conversation("else", conversation_history=rows[:2])
        assert result["branched_from"] == "mine"
        assert said(server) == ["one", "answer to one", "else"]
        assert server.requests[-1].messages[:3] == second.messages[:3]
        result = agent.run_conversation("cut", conversation_history=rows[:3])
        assert said(server)[0:3] == ["one", "answer to one", "two"] and said(server)[-1] == "cut"


def test_a_history_is_compared_with_what_was_compressed_too(home: TempHome) -> None:
    words = " ".join(f"word{number}" for number in range(3_000))
    (home.hermes / "config.yaml").write_text("compression: {protect_last_n: 2, protect_first_n: 0}\n")
    with Served(ScriptedModel(lambda _: Say("short"))) as server:
        with make_agent(server, home, session_id="mine", context_length=16_000, enabled_toolsets=[]) as agent:
            history: Rows = []
            for number in range(6):
                result = agent.run_conversation(f"{number} {words[:9_000]}", conversation_history=history or None)
                history += [say("user", f"{number} {words[:9_000]}"), say("assistant", str(result["final_response"]))]
                assert (result["session_id"], result["branched_from"]) == ("mine", None)
        assert len(server.requests[-1].body) < 60_000, "nothing was compressed"
