"""A reload holds: rights at once, everything else with the next turn, and it says what waits."""

from collections.abc import Mapping

import pytest

from hermes.gateway.session_pool import require_local
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import Running, home_for, running
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow

_WIDE = {"gateway": {"roles": {"user": {"toolsets": ["web", "file", "terminal", "memory"]}}}}
_NARROW = {"gateway": {"roles": {"user": {"toolsets": ["web"]}}}}


def change_config(home: TempHome, changes: Mapping[str, object]) -> None:
    """Write the home's settings with these sections."""
    home.write_config({**(home.config or {}), **changes})


async def test_a_narrowed_role_holds_inside_a_running_turn_and_in_the_next() -> None:
    """H2: what an administrator takes away is refused from the next call on, and offered no more from the next turn."""
    rig: list[tuple[TempHome, Running]] = []

    async def reply(request: RecordedRequest) -> Reply:
        number = len(server.requests)
        if number == 1:
            return Say(calls=(Call("read_file", {"path": "notes.txt"}),))
        if number == 2:
            home, on = rig[0]
            change_config(home, _NARROW)
            outcome = await on.gateway.reload_settings()
            assert outcome.code == 0 and "gateway" in outcome.said
            return Say(calls=(Call("read_file", {"path": "notes.txt"}),))
        return Say("Done.")

    async with ScriptedServer(ScriptedModel(reply)) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, _WIDE, allow=[fake.person]) as home:
            async with running(home) as on:
                rig.append((home, on))
                await fake.say("read my notes")
                await fake.until(lambda: "Done." in fake.text())
                first, second, third = server.requests[:3]
                assert "terminal" in first.tool_names
                assert second.tools == third.tools == first.tools, "the prefix of a running turn stays"
                assert (
                    "taken away" in list(third.results.values())[-1]
                    and "taken away" not in list(second.results.values())[-1]
                )
                await fake.say("and now?")
                await fake.until(lambda: fake.text().count("Done.") == 2)
                assert not {"terminal", "read_file", "write_file"} & set(server.requests[3].tool_names)
                await fake.say("/new")
                await fake.say("and in a new session?")
                await fake.until(lambda: fake.text().count("Done.") == 3)
                assert not {"terminal", "read_file"} & set(server.requests[4].tool_names)
                change_config(home, _WIDE)
                await on.gateway.reload_settings()
                await fake.say("and again?")
                await fake.until(lambda: fake.text().count("Done.") == 4)
                assert {"terminal", "read_file"} <= set(server.requests[5].tool_names)
                (entry,) = on.gateway.pool.live_sessions
                assert require_local(entry.actor).conversation.epoch_reason == "another tool set"


async def test_a_message_right_behind_the_turn_that_lost_tools_is_not_offered_them() -> None:
    """The session is still at work when the next message comes: it is not opened again, but its tools are chosen."""
    async with ScriptedServer([Say("One.", delivery=ReplyDelivery(hold_at=1)), Say("Two.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, _WIDE, allow=[fake.person], busy="queue") as home:
            async with running(home) as on:
                await fake.say("first")
                await server.wait_for(1)
                await fake.say("second")
                (entry,) = on.gateway.pool.live_sessions
                await fake.until(lambda: len(require_local(entry.actor).mailbox) == 1)
                change_config(home, _NARROW)
                await on.gateway.reload_settings()
                server.release()
                await fake.until(lambda: "Two." in fake.text())
                first, second = server.requests[:2]
                assert "read_file" in first.tool_names and "read_file" not in second.tool_names
                assert len(second.messages) > len(first.messages), "it is the same session"


async def test_another_role_holds_inside_a_running_turn() -> None:
    """`people role` of another process counts at the next call, as a reload does."""
    rig: list[TempHome] = []

    async def reply(request: RecordedRequest) -> Reply:
        number = len(server.requests)
        if number == 2:
            done = await run_hermes(rig[0], "people", "role", "anna", "guest")
            assert done.code == 0, done.stderr
        return Say(calls=(Call("todo", {"todos": []}),)) if number < 3 else Say("Done.")

    async with ScriptedServer(ScriptedModel(reply)) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}) as home:
            rig.append(home)
            assert (await run_hermes(home, "people", "add", "anna", "--role", "user")).code == 0
            assert (await run_hermes(home, "people", "link", "anna", "telegram", fake.person)).code == 0
            async with running(home):
                await fake.say("plan it")
                await fake.until(lambda: "Done." in fake.text())
                results = [list(one.results.values())[-1] for one in server.requests[1:3]]
                assert "taken away" not in results[0] and "taken away" in results[1]
                await fake.say("and now?")
                await fake.until(lambda: fake.text().count("Done.") == 2)
                assert not server.requests[3].tool_names


async def test_another_model_answers_from_the_next_turn_on() -> None:
    async with ScriptedServer([Say("One."), Say("Two.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, owners=[fake.person]) as home:
            async with running(home) as on:
                await fake.say("hi")
                await fake.until(lambda: "One." in fake.text())
                model = dict((home.config or {})["model"], default="another-model")  # type: ignore[call-overload]
                change_config(home, {"model": model})
                outcome = await on.gateway.reload_settings()
                assert "model" in outcome.said and not outcome.notices
                await fake.say("hi again")
                await fake.until(lambda: "Two." in fake.text())
                assert [one.json["model"] for one in server.requests][1] == "another-model"
                assert not on.app.services.has_replaced, "what is replaced is closed"


async def test_reload_says_what_is_wrong_and_what_waits() -> None:
    """M8: exit code 78 with unusable settings, the lines of `status`, and what only a restart applies."""
    async with ScriptedServer([Say("One."), Say("Two.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, owners=[fake.person]) as home:
            async with running(home):
                change_config(home, {"cron": {"max_running": 2}, "gateway": {"metrics": "127.0.0.1:0"}})
                done = await run_hermes(home, "gateway", "reload")
                assert done.code == 0 and "Only a restart applies: cron.max_running, gateway.metrics." in done.stderr
                platforms = dict((home.config or {})["platforms"], slak={"token": "x"})  # type: ignore[call-overload]
                change_config(home, {"platforms": platforms})
                done = await run_hermes(home, "gateway", "reload")
                assert done.code == 78 and "Did you mean 'slack'" in done.stderr, done.stderr
                (home.hermes / "config.yaml").write_text("model: [unclosed\n")
                done = await run_hermes(home, "gateway", "reload")
                assert done.code == 78 and "nothing was changed" in done.stdout + done.stderr
                await fake.say("are you there?")
                await fake.until(lambda: "One." in fake.text())
