"""The callbacks of `AIAgent`, where its model gives tasks to sub-agents: progress, approvals with names, interrupts."""

import threading
import time
from collections.abc import Iterator

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from tests.sessions.served_agent import Served, make_agent
from tests.sessions.sub_agents.rig import HANGING
from tests.sessions.sub_agents.team_model import TeamModel, delegate, read_results

RISKY = Say(calls=(Call("terminal", {"command": "rm -r old"}),))


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[TempHome]:
    with TempHome() as made:
        for name, value in made.environ.items():
            monkeypatch.setenv(name, value)
        yield made


def test_callbacks_tell_what_sub_agents_do_and_approvals_name_them(home: TempHome) -> None:
    (home.cwd / "old").mkdir()
    (home.cwd / "old/.env").write_text("no copy is made of it")
    heard: list[str] = []
    asked: list[tuple[str, str]] = []
    model = TeamModel([delegate("clean up", "count"), Say("Both are done.")], {"clean": [RISKY, Say("cleaned")]})
    with Served(model) as server:
        made = make_agent(
            server,
            home,
            tool_progress_callback=lambda event, name, preview: heard.append(f"{event} {name} {preview}".strip()),
            status_callback=lambda state, detail: heard.append(f"{state} {detail}"),
            approval_callback=lambda command, reason: asked.append((command, reason)) or True,
        )
        with made:
            assert made.chat("go") == "Both are done."
    ((command, reason),) = asked
    assert command == "rm -r old" and reason.startswith("Sub-agent clean up: ")
    assert "sub_agent.started clean up" in heard and "sub_agent.completed count done" in heard
    assert "sub_agent.progress clean up terminal rm -r old" in heard
    assert "executing clean up: terminal rm -r old" in heard
    assert not (home.cwd / "old").exists()


def test_an_interrupt_reaches_sub_agents_at_once(home: TempHome) -> None:
    model = TeamModel([delegate("a", "b"), Say("no")], {"a": [HANGING], "b": [HANGING]})
    took: list[float] = []
    with Served(model) as server, make_agent(server, home) as made:
        started = threading.Event()

        def note(event: str, name: str, _preview: str) -> None:
            if (event, name) == ("sub_agent.started", "b"):
                started.set()

        def interrupt() -> None:
            assert started.wait(30)
            took.append(time.perf_counter())
            made.interrupt()

        made.tool_progress_callback = note
        stopper = threading.Thread(target=interrupt)
        stopper.start()
        result = made.run_conversation("go")
        took.append(time.perf_counter())
        stopper.join()
        assert result["turn_exit_reason"] == "interrupted_by_user"
    assert took[1] - took[0] < 1.0


def test_sub_agents_in_the_background_report_by_a_turn_of_its_own(home: TempHome) -> None:
    woken = threading.Event()
    results: list[object] = []

    def note(result: object) -> None:
        results.append(result)
        if len(results) == 2:
            woken.set()

    model = TeamModel([delegate("a", background=True), Say("It works."), Say("I heard.")])
    with Served(model) as server, make_agent(server, home, background_agents=True, step_callback=note) as made:
        assert made.chat("go") == "It works."
        assert woken.wait(30)
    assert [one["final_response"] for one in results] == ["It works.", "I heard."]  # type: ignore[index]


def test_without_the_background_such_a_call_is_waited_for(home: TempHome) -> None:
    with Served(TeamModel([delegate("a", background=True), Say("Heard.")])) as server, make_agent(server, home) as made:
        assert made.chat("go") == "Heard."
        assert "report on a" in read_results(server.requests[-1])[-1]
