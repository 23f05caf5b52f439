"""A prompt is read when an epoch begins, stored, restored byte for byte; what is never stored is known by a hash.

What a provider finds too large is made smaller in a new epoch.
"""

import base64
import io
import random
import sqlite3
from pathlib import Path

import msgspec
import pytest

from hermes.config.trusted_folders import set_trust
from hermes.core.errors import ConfigError
from hermes.core.events import EpochBegan, Event, Notice
from hermes.core.messages import PERSON, ImagePart, Message, Role, TextPart
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Call, Fail, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer


async def say(home: TempHome, text: str, *, latest: bool = True, options: SessionOptions | None = None) -> list[str]:
    """One turn in a process of its own; why its epochs began, and what there was to say."""
    async with App(home.environ, options or SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session(latest=latest)
        await actor.post(InboundMessage(text=text, cwd=str(home.cwd)))
        return [actor.conversation.epoch_reason, *app.notices]


async def test_a_changed_file_waits_for_the_next_epoch() -> None:
    async with ScriptedServer([Say("ok")] * 3) as server:
        with TempHome.for_server(server.url) as home:
            soul = home.hermes / "SOUL.md"
            soul.write_text("You are Ada.")
            (home.cwd / "AGENTS.md").write_text("Use tabs.")
            set_trust(home.hermes / "trust.json", str(home.cwd), trusted=True)
            await say(home, "one", latest=False)
            soul.write_text("You are Bob.")
            (home.cwd / "AGENTS.md").write_text("Use spaces.")
            assert (await say(home, "two"))[0] == ""
            await say(home, "three", latest=False)
        first, second, third = server.requests
        assert "You are Ada." in first.system and "Use tabs." in first.system
        assert second.system == first.system
        assert "You are Bob." in third.system and "Use spaces." in third.system
        check_prefixes([first, second])


async def test_a_project_without_trust_is_named_to_the_person_only() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "AGENTS.md").write_text("Use tabs.")
            began = await say(home, "one", latest=False)
        assert "Use tabs." not in server.requests[0].system
        assert any("AGENTS.md is not used" in line for line in began)


@pytest.mark.parametrize("state", ["missing", "empty", "present"])
async def test_each_state_of_a_stored_prompt(state: str) -> None:
    """Row TP-03: a prompt that is there is used again; one that is missing or empty is built anew, by name."""
    async with ScriptedServer([Say("ok")] * 2) as server:
        with TempHome.for_server(server.url) as home:
            await say(home, "one", latest=False)
            (home.hermes / "SOUL.md").write_text("You are Bob.")
            database = sqlite3.connect(home.hermes / "hermes.db")
            with database:
                if state == "missing":
                    database.execute("UPDATE epochs SET ended_at = 1, end_reason = 'lost'")
                elif state == "empty":
                    (raw,) = database.execute("SELECT frame FROM epochs").fetchone()
                    frame = msgspec.json.decode(raw)
                    database.execute("UPDATE epochs SET frame = ?", (msgspec.json.encode(frame | {"system": ""}),))
            database.close()
            reason = (await say(home, "two"))[0]
        again = server.requests[1].system
        assert (reason, "Bob" in again) == {
            "missing": ("a new session", True),
            "empty": ("a system prompt", True),
            "present": ("", False),
        }[state]


def stored_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_what_is_never_stored_is_sent_each_time_and_a_change_of_it_ends_the_epoch() -> None:
    shots = (
        Message(role=Role.USER, parts=(TextPart("shot question zzq"),)),
        Message(role=Role.ASSISTANT, parts=(TextPart("shot answer zzq"),)),
    )
    async with ScriptedServer([Say("ok")] * 4) as server:
        with TempHome.for_server(server.url) as home:
            options = SessionOptions(
                cwd=str(home.cwd), ephemeral_system_prompt="Whisper xyzzy.", prefill_messages=shots
            )
            await say(home, "one", latest=False, options=options)
            assert (await say(home, "two", options=options))[0] == ""
            assert (await say(home, "three"))[0] == "another ephemeral prompt"
            kept = stored_bytes(home.hermes)
        for request in server.requests[:2]:
            assert request.system.endswith("\n\nWhisper xyzzy.")
            sent = [(one["role"], one["content"]) for one in request.messages[1:3]]
            assert sent == [("user", "shot question zzq"), ("assistant", "shot answer zzq")]
        check_prefixes(server.requests, new_epochs={2})
        assert b"xyzzy" not in kept and b"zzq" not in kept
        assert "xyzzy" not in server.requests[2].body.decode()


async def test_settings_give_the_same_and_a_personality() -> None:
    more = {
        "agent": {"system_prompt": "From settings.", "personality": "pirate"},
        "personalities": {"pirate": "Arr."},
        "prefill_messages_file": "shots.json",
        "platform_hints": {"cli": {"append": "No emoji."}},
    }
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url, more_config=more) as home:
            (home.hermes / "shots.json").write_text('[{"role": "user", "content": "a"}]')
            await say(home, "one", latest=False)
        first = server.requests[0]
        assert "Arr." in first.system and "No emoji." in first.system and first.system.endswith("From settings.")
        assert [one["role"] for one in first.messages] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("content", ["[1]", "{", '[{"role": "user", "content": "\\ud800"}]', None])
async def test_a_file_of_messages_that_is_none_is_said(content: str | None) -> None:
    with TempHome.for_server("http://127.0.0.1:1", more_config={"prefill_messages_file": "shots.json"}) as home:
        if content is not None:
            (home.hermes / "shots.json").write_text(content)
        with pytest.raises(ConfigError, match=r"shots\.json"):
            await say(home, "one", latest=False)


WIRES = ["chat_completions", "responses", "anthropic_messages"]


def picture(side: int) -> ImagePart:
    images = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    images.frombytes("RGB", (side, side), random.Random(1).randbytes(side * side * 3)).save(out, "PNG")
    return ImagePart(data=base64.b64encode(out.getvalue()).decode(), provenance=PERSON)


class Strict:
    """A server that takes requests up to a number of bytes, and refuses the others in its own words."""

    def __init__(self, most: int, refusal: Fail, replies: list[Reply]) -> None:
        self.most = most
        self.refusal = refusal
        self.replies = replies

    def __call__(self, request: RecordedRequest) -> Reply:
        return self.refusal if len(request.body) > self.most else self.replies.pop(0)


async def shrink(
    model: Strict, wire: str, *messages: InboundMessage
) -> tuple[list[tuple[ExitReason, str]], list[Event], ScriptedServer]:
    events: list[Event] = []
    async with ScriptedServer(ScriptedModel(model)) as server:
        with TempHome.for_server(server.url, api_mode=wire) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(events.append)
                ends = [await actor.post(message) for message in messages]
    assert all(find_problems(request) == [] for request in server.requests)
    return [(ended.reason, ended.text) for ended in ends], events, server


def began(events: list[Event]) -> list[str]:
    return [event.reason for event in events if isinstance(event, EpochBegan)]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "refusal", [Fail(413, message="Request too large"), Fail(400, message="image exceeds 5 MB maximum")]
)
async def test_pictures_are_made_smaller_until_they_fit(wire: str, refusal: Fail) -> None:
    model = Strict(900_000, refusal, [Say("I see"), Say("still there")])
    shown = InboundMessage(text="look", images=(picture(900),))
    ends, events, server = await shrink(model, wire, shown, InboundMessage(text="and"))
    assert ends == [(ExitReason.TEXT_RESPONSE, "I see"), (ExitReason.TEXT_RESPONSE, "still there")]
    reasons = began(events)
    assert reasons and all(one.startswith("rewritten: ") and "images_" in one for one in reasons)
    assert b"too large to send" not in server.requests[-1].body and len(server.requests[-1].body) > 100_000
    check_prefixes(server.requests[-2:])


async def test_what_still_does_not_fit_is_left_out_and_said() -> None:
    model = Strict(100_000, Fail(413, message="Request too large"), [Say("I cannot see it")])
    ends, events, server = await shrink(model, WIRES[0], InboundMessage(text="look", images=(picture(900),)))
    assert ends == [(ExitReason.TEXT_RESPONSE, "I cannot see it")]
    assert b"too large to send" in server.requests[-1].body
    assert any(isinstance(event, Notice) and "left out" in event.text for event in events)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("refusal", [Fail(413, message="x"), Fail(400, message="prompt is too long")])
async def test_one_huge_result_is_made_smaller(wire: str, refusal: Fail) -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": "seq 1 8000"}),)), Say("counted")]
    ends, events, server = await shrink(Strict(22_000, refusal, replies), wire, InboundMessage(text="count"))
    assert ends == [(ExitReason.TEXT_RESPONSE, "counted")]
    assert set(began(events)) == {"compressed"}
    assert b"shortened" in server.requests[-1].body


async def test_huge_results_behind_a_talk_are_shortened_with_the_summary_of_the_talk() -> None:
    said: list[Reply] = [Say(f"answer {number} " + "word " * 300) for number in range(20)]
    calls = tuple(Call("terminal", {"command": f"seq {number} 8000"}) for number in range(1, 5))
    model = Strict(80_000, Fail(413, message="x"), [*said, Say(calls=calls), Say("NOTES"), Say("counted")])
    talk = [InboundMessage(text=f"tell {number}") for number in range(20)]
    ends, events, server = await shrink(model, WIRES[0], *talk, InboundMessage(text="count"))
    sizes = [len(request.body) for request in server.requests]
    assert ends[-1] == (ExitReason.TEXT_RESPONSE, "counted"), sizes
    assert began(events) == ["compressed"] and server.requests[-1].body.count(b"[shortened; ") == 4, sizes


async def test_a_picture_that_is_the_smaller_part_goes_with_the_summary_in_one_epoch() -> None:
    said: list[Reply] = [Say(f"answer {number} " + "word " * 3_000) for number in range(8)]
    model = Strict(140_000, Fail(413, message="x"), [*said, Say("NOTES"), Say("I see")])
    talk = [InboundMessage(text=f"tell {number}") for number in range(8)]
    shown = InboundMessage(text="look", images=(picture(110),))
    ends, events, server = await shrink(model, WIRES[0], *talk, shown)
    sizes = [len(request.body) for request in server.requests]
    assert ends[-1] == (ExitReason.TEXT_RESPONSE, "I see"), sizes
    assert began(events) == ["compressed"] and b"too large to send" in server.requests[-1].body, sizes


async def test_pictures_results_and_talk_are_made_smaller_in_one_epoch() -> None:
    replies: list[Reply] = []
    for _ in range(6):
        replies += [Say(calls=(Call("terminal", {"command": "seq 1 2000"}),)), Say("done " + "word " * 400)]
    model = Strict(400_000, Fail(413, message="Request too large"), [*replies, Say("all fits")])
    talk = [InboundMessage(text=f"count {number}") for number in range(6)]
    ends, events, _ = await shrink(model, WIRES[0], *talk, InboundMessage(text="look", images=(picture(300),)))
    assert ends[-1] == (ExitReason.TEXT_RESPONSE, "all fits")
    assert len(began(events)) == 1
