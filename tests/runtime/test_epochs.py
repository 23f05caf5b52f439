"""A prompt is read when an epoch begins, stored, restored byte for byte; what is never stored is known by a hash."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from hermes.config.trusted_folders import set_trust
from hermes.core.errors import ConfigError
from hermes.core.messages import Message, Role, TextPart
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Say
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
