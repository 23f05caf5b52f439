"""What a server refuses for its order of roles is sent in another form from there on; what is stored stays."""

from collections.abc import Sequence

from hermes.core.events import EpochBegan, Event, TurnEnded
from hermes.core.messages import Message, ReasoningPart, Role, TextPart, user_message
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from hermes.testing.template_rules import Alternation, RefusalForm, TemplateRules
from hermes.util.clock import SystemClock

RULES = TemplateRules(form=RefusalForm.OPENAI, alternation=Alternation.NEIGHBOURS, empty=False)
THOUGHT = Message(role=Role.ASSISTANT, parts=(ReasoningPart(text="hm"),))


async def say(home: TempHome, text: str, *, latest: bool = True) -> tuple[TurnEnded, list[str]]:
    """One turn in a process of its own; how it ended, and why epochs began."""
    events: list[Event] = []
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session(latest=latest)
        actor.subscribe(events.append)
        ended = await actor.post(InboundMessage(text=text, cwd=str(home.cwd)))
        opened = [actor.conversation.epoch_reason] if latest and actor.conversation.epoch_reason else []
    return ended, [*opened, *(event.reason for event in events if isinstance(event, EpochBegan))]


async def append(home: TempHome, messages: Sequence[Message]) -> None:
    """Put messages of an older Hermes into the newest session's epoch."""
    store = await Store.open(home.hermes, SystemClock())
    try:
        row = await store.sessions.get_latest()
        assert row is not None
        await store.messages.append(row.id, 1, None, messages)
    finally:
        await store.close()


async def test_a_session_that_holds_an_empty_answer_heals() -> None:
    async with ScriptedServer([Say("hello"), Say("healed"), Say("and on")], strict=RULES) as server:
        with TempHome.for_server(server.url, more_config={"agent": {"api_max_retries": 0}}) as home:
            await say(home, "one", latest=False)
            await append(home, [user_message("two"), THOUGHT, Message(role=Role.ASSISTANT, parts=(TextPart("late"),))])
            ended, epochs = await say(home, "three")
            assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, "healed")
            assert epochs == ["rewritten: merged_roles"]
            ended, epochs = await say(home, "four")
            assert (ended.text, epochs) == ("and on", [])
    first, refused, healed, last = server.requests
    check_prefixes([first, refused])
    check_prefixes([healed, last])
    assert [one["content"] for one in refused.messages if one["role"] == "assistant"] == ["hello", "", "late"]
    assert [one["content"] for one in healed.messages if one["role"] == "assistant"] == ["hello", "late"]


async def test_an_order_that_stays_the_same_is_not_tried_again() -> None:
    rules = TemplateRules(form=RefusalForm.LLAMA_CPP, user_first=True, system=False, tools=False, text_only=True)
    async with ScriptedServer([Say("hello")], strict=rules) as server:
        with TempHome.for_server(server.url, more_config={"agent": {"api_max_retries": 0}}) as home:
            ended, epochs = await say(home, "one", latest=False)
    assert (ended.text, epochs) == ("hello", ["rewritten: no_system_role"])
    assert [one["role"] for one in server.requests[1].messages] == ["user"]
    assert server.requests[0].system in str(server.requests[1].messages[0]["content"])


async def test_earlier_reasoning_goes_back_as_the_setting_says() -> None:
    said = [Say(f"answer {number}", reasoning=f"thought {number}") for number in range(6)]
    async with ScriptedServer(said) as server:
        with TempHome.for_server(server.url) as home:
            assert isinstance(home.config, dict)
            for number, replay in enumerate((None, True, "thinking", "thinking", False)):
                model = {**home.config["model"], **({} if replay is None else {"reasoning_replay": replay})}
                home.write_config({**home.config, "model": model})
                _, epochs = await say(home, f"say {number}", latest=number > 0)
                assert epochs == (["other model parameters"] if number in (1, 2, 4) else [])
    sent = [[one for one in request.messages if one["role"] == "assistant"] for request in server.requests]
    assert [one["reasoning_content"] for one in sent[1]] == ["thought 0"]
    assert [one["thinking"] for one in sent[2]] == ["thought 0", "thought 1"]
    assert [one["thinking"] for one in sent[3]] == ["thought 0", "thought 1", "thought 2"]
    assert all(set(one) == {"role", "content"} for one in sent[4])
    check_prefixes(server.requests[2:4])
