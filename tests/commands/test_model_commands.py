"""The model of a session, and how it is: switched between two turns, by name and at a known cost."""

import pytest
import yaml

from hermes.core.errors import BusyError, ConfigError, NotFoundError, UsageError
from hermes.core.events import EpochBegan
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Ending, ReplyDelivery, Say
from tests.commands.chat_surfaces import chat

HI = [Say("one"), Say("two"), Say("three"), Say("four")]


async def test_another_model_answers_from_the_next_message_on() -> None:
    async with chat(HI) as here:
        await here.say("hello")
        told = await here.desk.type_line("/model other-model")
        await here.say("and now?")
        assert here.sent("model") == ["mock-model", "other-model"]
        assert "other-model" in told and "without help from a cache" not in told  # of so little nothing is said
        began = [event for event in here.events if isinstance(event, EpochBegan)]
        assert [event.reason for event in began] == ["the person chose other-model"]
        assert 0 < began[0].bytes < 10_000
        assert [find_problems(request) for request in here.server.requests] == [[], []]
        assert "other-model" in await here.desk.type_line("/status")
        assert here.desk.refreshed == 1


async def test_a_typed_name_that_the_server_does_not_list_is_told() -> None:
    async with chat(HI) as here:
        told = await here.desk.type_line("/model mock-modle")
        assert "does not list mock-modle. Did you mean 'mock-model'? It is used all the same." in told
        assert "does not list" not in await here.desk.type_line("/model default")
        assert "does not list" not in await here.desk.type_line("/model mock-model")


async def test_the_default_comes_back_and_nothing_is_kept() -> None:
    async with chat(HI) as here:
        before = (here.home.hermes / "config.yaml").read_text()
        await here.desk.type_line("/model other-model")
        await here.desk.type_line("/model default")
        await here.say("hello")
        assert here.sent("model") == ["mock-model"]
        assert (here.home.hermes / "config.yaml").read_text() == before


async def test_global_keeps_it() -> None:
    async with chat(HI) as here:
        told = await here.desk.type_line("/model other-model --global")
        kept = yaml.safe_load((here.home.hermes / "config.yaml").read_text())
        assert kept["model"]["default"] == "other-model" and kept["model"]["base_url"] == here.server.url
        assert "model.default" in told


async def test_a_menu_lists_what_the_server_has() -> None:
    async with chat(HI) as here:
        here.desk.answers.append(0)
        told = await here.desk.type_line("/model")
        named = here.desk.questions[0].options[0].label
        assert "mock-model" in told and named
        await here.say("hello")
        assert here.sent("model") == [named]


async def test_nothing_changes_when_the_menu_is_left() -> None:
    async with chat(HI) as here:
        await here.desk.type_line("/model")
        await here.say("hello")
        assert here.sent("model") == ["mock-model"]


async def test_a_window_that_is_too_small_is_asked_about_first() -> None:
    async with chat(HI, window=64) as here:
        await here.say("word " * 400)
        here.desk.answers += [False, True]
        assert "Nothing was changed" in await here.desk.type_line("/model mock-model")
        assert "window of 64 tokens" in here.desk.questions[0].text
        assert not [event for event in here.events if isinstance(event, EpochBegan)]
        assert "answers now" in await here.desk.type_line("/model mock-model")
        assert len([event for event in here.events if isinstance(event, EpochBegan)]) == 1


async def test_a_model_that_cannot_be_used_changes_nothing() -> None:
    async with chat(HI) as here:
        with pytest.raises(ConfigError):
            await here.desk.type_line("/model x --provider anthropic")
        with pytest.raises(ConfigError):
            await here.desk.type_line("/model x --provider no-such-provider")
        with pytest.raises(UsageError):
            await here.desk.type_line("/model a b")
        with pytest.raises(UsageError):
            await here.desk.type_line("/model --provider")
        await here.say("hello")
        assert here.sent("model") == ["mock-model"]


async def test_it_waits_while_a_turn_runs() -> None:
    hanging = Say("never ends", delivery=ReplyDelivery(ending=Ending.HANG, at=2))
    async with chat([hanging, Say("two")]) as here:
        ended = here.desk.actor.post(InboundMessage(text="hello"))
        with pytest.raises(BusyError):
            await here.desk.type_line("/model other-model")
        with pytest.raises(BusyError):
            await here.desk.type_line("/reasoning high")
        await here.server.wait_for(1)
        here.desk.actor.stop()
        assert (await ended).reason is ExitReason.INTERRUPTED


async def test_reasoning_effort_is_sent_and_taken_back() -> None:
    async with chat(HI) as here:
        await here.say("hello")
        assert "high" in await here.desk.type_line("/reasoning high")
        await here.say("again")
        await here.desk.type_line("/reasoning default")
        await here.say("and again")
        assert here.sent("reasoning_effort") == [None, "high", None]
        with pytest.raises(UsageError, match="no effort 'hihg'"):
            await here.desk.type_line("/reasoning hihg")
        assert here.desk.terminal.display.show_reasoning is False
        await here.desk.type_line("/reasoning show")
        assert here.desk.terminal.display.show_reasoning is True


async def test_a_personality_is_part_of_the_prompt() -> None:
    async with chat(HI, config={"personalities": {"mine": "Speak of yourself as a lighthouse."}}) as here:
        await here.desk.type_line("/personality pirate")
        await here.say("hello")
        await here.desk.type_line("/personality mine")
        await here.say("hello")
        await here.desk.type_line("/personality none")
        await here.say("hello")
        pirate, mine, none = [request.body.decode() for request in here.server.requests]
        assert "old pirate" in pirate and "lighthouse" in mine and "old pirate" not in mine
        assert "pirate" not in none and "lighthouse" not in none
        with pytest.raises(NotFoundError, match="no personality 'pirat'"):
            await here.desk.type_line("/personality pirat")
        here.desk.answers.append("brief")
        assert "brief" in await here.desk.type_line("/personality")


async def test_tools_are_switched_for_this_session_only() -> None:
    async with chat(HI) as here:
        before = (here.home.hermes / "config.yaml").read_text()
        told = await here.desk.type_line("/tools disable terminal web")
        await here.say("hello")
        await here.desk.type_line("/tools enable terminal")
        await here.say("again")
        names = [
            [tool["function"]["name"] for tool in tools] for tools in here.sent("tools") if isinstance(tools, list)
        ]
        assert "terminal" not in names[0] and "web_search" not in names[0] and "read_file" in names[0]
        assert "terminal" in names[1] and "web_search" not in names[1]
        assert "Off in this session: terminal, web" in told
        assert "Already so" in await here.desk.type_line("/tools enable terminal")
        assert (here.home.hermes / "config.yaml").read_text() == before
        assert "read_file" in await here.desk.type_line("/tools")
        assert "web                  off" in await here.desk.type_line("/toolsets")
        for wrong in ("/tools enable nosuchset", "/tools disable", "/tools what", "/tools enable mcp"):
            with pytest.raises((UsageError, ConfigError)):
                await here.desk.type_line(wrong)
