"""Sub-agents as people meet them: in both chats, in a stream of JSON lines, and from another process."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermes.markup.cells import measure_width
from hermes.testing.home import TempHome
from hermes.testing.script import Call, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux
from tests.sessions.sub_agents.team_model import TeamModel, delegate

HELD = Say("a report", delivery=ReplyDelivery(hold_at=2))
RISKY = Say(calls=(Call("terminal", {"command": "rm -rf /etc/x"}),))
ASKING = {"ask": [RISKY, Say("It was not to be.")]}


def delegate_tasks(*tasks: dict[str, object]) -> Say:
    return Say(calls=(Call("tool_call", {"name": "delegate_task", "arguments": {"tasks": [*tasks]}}),))


@asynccontextmanager
async def serve(model: TeamModel) -> AsyncIterator[tuple[ScriptedServer, TempHome]]:
    async with ScriptedServer(model) as server:
        with TempHome.for_server(server.url) as home:
            yield server, home


def assert_fits(screen: str, columns: int) -> None:
    assert all(measure_width(line) <= columns for line in screen.splitlines()), screen


@NEEDED
@pytest.mark.parametrize(("language", "columns"), [("zh", 60), ("en", 100)])
async def test_each_has_a_line_and_asks_with_its_name(language: str, columns: int) -> None:
    top = delegate_tasks(
        {"goal": "boss \x1b[2Jof leaves", "role": "orchestrator"},
        {"goal": "ask about a folder"},
        *({"goal": f"task {n} that is worded at such a length that no line of a terminal holds it"} for n in range(6)),
    )
    agents = {"boss": [delegate("leaf one", "leaf two"), Say("Both did.")], "leaf": [HELD], "task": [HELD]} | ASKING
    asks, works, more, done = {
        "en": (
            "Sub-agent ask about a folder asks.",
            "works 1/50",
            "and 5 more sub-agents: 5 queued",
            "done, 2 steps.",
        ),
        "zh": ("子代理 ask about a folder 询问", "工作中 1/50", "以及另外 5 个子代理：5 排队中", "完成，2 步。"),
    }[language]
    async with serve(TeamModel([top, Say("All done.")], agents)) as (server, home):
        home.more["HERMES_LANGUAGE"] = language
        async with in_tmux(home, size=(columns, 40)) as screen:
            await screen.shows("mock-model")
            await screen.enter("go")
            shown = await screen.shows(asks, "rm -rf /etc/x", works, more, "1 boss \\u{1b}", "leaf one")
            assert_fits(shown, columns)
            await screen.until(lambda now: "Enter" in now, "it does not listen")
            await screen.press("n")
            assert_fits(await screen.shows("ask about a folder", done), columns)
            while "All done." not in await screen.screen():
                server.release()
                await asyncio.sleep(0.05)
            assert_fits(await screen.answers("All done."), columns)
            assert "2/50" not in await screen.screen()
            await screen.leave()


@NEEDED
async def test_in_the_background_they_are_listed_steered_stopped_and_left_for_later() -> None:
    top = [delegate("count files", "ask later", "dig", background=True), Say("They work."), Say("I heard of all.")]
    notes = Say(calls=(Call("read_file", {"path": "notes.txt"}),))
    agents = {"count": [HELD, Say("steered report")], "dig": [notes, HELD]} | ASKING
    async with serve(TeamModel(top, agents)) as (server, home):
        (home.cwd / "notes.txt").write_text("twelve ants")
        async with in_tmux(home) as screen:
            await screen.shows("mock-model")
            await screen.enter("go")
            await screen.shows("They work.", "Sub-agent ask later asks.", "dig · works")
            await screen.enter("/agents")
            await screen.shows(
                "This session: nothing runs.", "  1 count files · works 1/50", "  2 ask later · waits for"
            )
            await screen.enter("/agents show 1")
            await screen.shows("Task: count files", "Its last steps:", "All of it: hermes sessions show")
            await screen.enter("/agents steer 1 also the hidden ones")
            await screen.shows("Told sub-agent 1 (count files)")
            await screen.enter("/agents stop 3")
            await screen.shows("Sub-agent 3 (dig) is being stopped.", "Sub-agent 3 (dig): stopped")
            await screen.enter("/agents show 3")
            assert "<untrusted" not in await screen.shows("Task: dig", "· read_file", "twelve ants")
            await screen.enter("/agents stop 9")
            await screen.shows("No sub-agent 9 works.", "A letter answers")
            await screen.press("n")
            await screen.shows("Sub-agent 2 (ask later): done")
            left = await screen.leave()
            assert "A sub-agent is left where it is" in left
        sent = len(server.requests)
        async with in_tmux(home, "-c") as screen:
            await screen.shows("1 sub-agent of this session goes on.", "1 count files · works")
            await server.wait_until(lambda: any(one.held for one in server.requests[sent:]))
            server.release()
            await screen.answers("Sub-agent 1 (count files): done", "I heard of all.")
            await screen.enter("/agents")
            await screen.shows("1 count files · done", "2 ask later · done", "3 dig · stopped")
            await screen.enter("/agents show 2")
            await screen.shows("Task: ask later", "· terminal", "Its report:", "It was not to be.")
            await screen.enter("/usage")
            await screen.shows("its sub-agents")
            await screen.leave()
        assert any("also the hidden ones" in one.body.decode() for one in server.requests)


@NEEDED
async def test_the_plain_chat_says_when_one_begins_and_ends_and_announces_its_questions() -> None:
    top = [delegate("count files", "ask later", background=True), Say("They work."), Say("I heard of both.")]
    model = TeamModel(top, {"count": [HELD]} | ASKING)
    async with serve(model) as (server, home), in_tmux(home, "--plain") as screen:
        await screen.until_cursor(2, "no prompt")
        await screen.enter("go")
        await screen.shows("Sub-agent 1 begins: count files", "! Sub-agent ask later asks.", "/approvals answers it.")
        await screen.enter("/approvals")
        await screen.shows("Which question?")
        for _ in range(2):
            await screen.enter("1")
        await screen.shows("Denied.", "Sub-agent ask later: refused: rm -rf /etc/x", "Sub-agent 2 (ask later): done")
        await server.wait_until(lambda: any(one.held for one in server.requests))
        server.release()
        await screen.shows("Sub-agent 1 (count files): done, 1 step.", "I heard of both.\n>")
        await screen.leave()


async def test_a_stream_of_json_tells_of_them_to_depth_two_and_names_who_was_refused() -> None:
    boss = [delegate("ask about a folder"), Say("It was refused.")]
    model = TeamModel(
        [delegate("boss", role="orchestrator", background=True), Say("All done.")], {"boss": boss} | ASKING
    )
    async with serve(model) as (_server, home):
        done = await home.run(sys.executable, "-m", "hermes", "-z", "go", "--stream-json")
        assert done.code == 3, done.stderr  # as for a refused call of the session's own
        events = [json.loads(line) for line in done.stdout.splitlines()]
        changes = [one for one in events if one["type"] == "sub_agent_changed"]
        assert {(one["name"], one.get("depth", 1), one.get("parent", 0)) for one in changes} == {
            ("boss", 1, 0),
            ("ask about a folder", 2, 1),
        }
        assert [one["name"] for one in changes if one["state"] == "done"] == ["ask about a folder", "boss"]
        (refused,) = [one for one in events if one["type"] == "refused"]
        assert refused["asker"] == "ask about a folder" and refused["subject"] == "rm -rf /etc/x"


async def test_another_process_shows_them_while_they_run() -> None:
    model = TeamModel(
        [delegate("look around", "dig"), Say("no")], {"look": [Say(calls=(Call("todo", {}),)), HELD], "dig": [HELD]}
    )
    async with serve(model) as (server, home):
        running = asyncio.ensure_future(home.run(sys.executable, "-m", "hermes", "-z", "go"))
        await server.wait_until(lambda: sum(one.held for one in server.requests) == 2)
        tree = await home.run(sys.executable, "-m", "hermes", "sessions", "tree", "--json")
        (root,) = json.loads(tree.stdout)
        first, second = root["sub_agents"]
        assert (first["name"], first["state"], second["name"]) == ("look around", "running", "dig")
        shown = await home.run(sys.executable, "-m", "hermes", "sessions", "show", first["id"])
        assert "· todo" in shown.stdout and "Last turn: running" in shown.stdout, shown.stdout
        listed = await home.run(sys.executable, "-m", "hermes", "sessions", "list", "--json")
        assert [one["id"] for one in json.loads(listed.stdout)] == [root["id"]]
        while not running.done():
            server.release()
            await asyncio.wait({running}, timeout=0.05)
        assert (await running).code == 0


@NEEDED
async def test_a_second_terminal_that_joins_sees_and_stops_them() -> None:
    top = [delegate("count files", "dig", background=True), Say("They work."), Say("I heard of both.")]
    async with serve(TeamModel(top, {"count": [HELD], "dig": [HELD]})) as (_server, home), in_tmux(home) as first:
        await first.shows("mock-model")
        await first.enter("go")
        await first.shows("They work.", "2 dig · works")
        listed = await home.run(sys.executable, "-m", "hermes", "sessions", "list", "--json")
        session_id = json.loads(listed.stdout)[0]["id"]
        async with in_tmux(home, "--resume", session_id) as second:
            await second.shows("1 count files · works", "2 dig · works")
            await second.enter("/agents stop 2")
            await second.shows("Sub-agent 2 (dig) is being stopped.", "Sub-agent 2 (dig): stopped")
            await first.shows("Sub-agent 2 (dig): stopped")
        await first.type("/agents ")
        await first.shows("show", "steer", "stop")
        await first.press("C-u")
        await first.enter("/stop all")
        await first.shows("1 sub-agent is being stopped.", "Sub-agent 1 (count files): stopped", "I heard of both.")
        await first.leave()
