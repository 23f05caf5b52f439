"""What is asked about: money, the window, settings, safety, what is remembered."""

import asyncio
import re

import pytest

from hermes.config.trusted_folders import read_trusted_folders
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.events import ApprovalAsked
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.script import Call, Say
from tests.commands.chat_surfaces import chat


async def test_use_is_shown_with_pictures() -> None:
    async with chat([Say("one"), Say("two")]) as here:
        await here.say("hello")
        await here.say("hello again " * 50)
        told = await here.desk.type_line("/usage")
        assert "2 calls" in told and "prompt tokens of the last 2 calls" in told and "█" in told
        assert "your messages" in await here.desk.type_line("/context")
        assert "mock-model" in await here.desk.type_line("/insights 7")
        for wrong in ("/insights 0", "/insights x", "/usage now"):
            with pytest.raises(UsageError):
                await here.desk.type_line(wrong)


async def test_no_picture_where_words_are_wanted() -> None:
    async with chat([Say("one"), Say("two")], config={"display": {"plain": True}}) as here:
        await here.say("hello")
        await here.say("hello again")
        told = await here.desk.type_line("/usage")
        assert re.search(r"Prompt tokens of the last 2 calls: [\d,]+ to [\d,]+, [\d,]+ in the last one\.", told), told
        assert "█" not in await here.desk.type_line("/context")


async def test_settings_are_told_without_keys() -> None:
    async with chat() as here:
        key = "sk-" + "x1Y2" * 8
        (here.home.hermes / "config.yaml").write_text(
            f"model: {{default: m, provider: custom, base_url: {here.server.url}, api_key: {key}}}\n"
        )
        told = await here.desk.type_line("/config")
        assert "model.default = m" in told and key not in told
        assert key not in await here.desk.type_line("/config model.api_key")
        with pytest.raises(UsageError):
            await here.desk.type_line("/config no.such.key")


async def test_trust_needs_a_yes() -> None:
    async with chat() as here:
        here.desk.answers += [False, True]
        trust = here.app.services.home.trust_file
        assert "Nothing was changed" in await here.desk.type_line("/trust")
        assert read_trusted_folders(trust) == ()
        assert "is trusted" in await here.desk.type_line("/trust")
        assert str(here.home.cwd) in read_trusted_folders(trust)
        assert "already" in await here.desk.type_line("/trust") and str(here.home.cwd) in await here.desk.type_line(
            "/trust list"
        )
        for wrong in ("/trust /", f"/trust {here.home.home}", "/trust no-such-folder"):
            with pytest.raises(UsageError):
                await here.desk.type_line(wrong)


async def test_a_question_that_waits_elsewhere_is_answered_here() -> None:
    async with chat([Say(calls=(Call("terminal", {"command": "rm -r old"}),)), Say("gone")]) as here:
        (here.home.cwd / "old").mkdir()
        async with App(here.home.environ, SessionOptions(cwd=str(here.home.cwd))) as other:
            actor = await other.open_session()
            actor.approvals.can_ask = True
            asked = asyncio.Event()
            actor.subscribe(lambda event: asked.set() if isinstance(event, ApprovalAsked) else None)
            ended = actor.post(InboundMessage(text="clean", cwd=str(here.home.cwd)))
            async with asyncio.timeout(60):
                await asked.wait()
                here.desk.answers += [0, "Yes, this once"]
                assert "Allowed" in await here.desk.type_line("/approvals")
                assert "rm -r old" in here.desk.text
                assert (await ended).reason is ExitReason.TEXT_RESPONSE
        assert not (here.home.cwd / "old").exists()
        assert "No question waits" in await here.desk.type_line("/approvals")


async def test_memory_is_written_and_taken_back() -> None:
    async with chat() as here:
        assert "Change 1" in await here.desk.type_line("/memory add The garage code is with Ada's sister.")
        assert "Ada's sister" in await here.desk.type_line("/memory")
        assert "undone" in await here.desk.type_line("/memory undo 1")
        assert "Ada's sister" not in await here.desk.type_line("/memory")
        assert "No change waits" in await here.desk.type_line("/memory pending")
        with pytest.raises(UsageError):
            await here.desk.type_line("/memory what")


async def test_skills_are_listed_and_looked_at() -> None:
    async with chat() as here:
        assert "csv-analysis" in await here.desk.type_line("/skills")
        assert "SKILL.md" in await here.desk.type_line("/skills view csv-analysis")
        assert "No change waits" in await here.desk.type_line("/skills pending")
        for wrong, error in (("/skills what", UsageError), ("/skills view nosuch", NotFoundError)):
            with pytest.raises(error):
                await here.desk.type_line(wrong)


async def test_what_runs_commands_is_told_as_a_whole() -> None:
    async with chat() as here:
        assert "all of your rights" in await here.desk.type_line("/sandbox")
        assert "Settings" not in await here.desk.type_line("/doctor")
        assert "Hermes 0" in await here.desk.type_line("/version")


async def test_the_status_names_the_folder_and_its_branch() -> None:
    async with chat() as here:
        assert f"Folder {here.home.cwd}." in await here.desk.type_line("/status")
        (here.home.cwd / ".git").mkdir()
        (here.home.cwd / ".git" / "HEAD").write_text("ref: refs/heads/tulips\n")
        assert f"Folder {here.home.cwd}, branch tulips." in await here.desk.type_line("/status")
