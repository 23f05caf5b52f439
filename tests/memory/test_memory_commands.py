"""`hermes memory` and `/memory`: what a person sees and does."""

import json

import pytest

from hermes.commands.memory import open_memory_admin
from hermes.memory.files import EntryChange, MemoryTarget
from hermes.memory.journal import ChangeOrigin
from hermes.store.revisions import RevisionAuthor
from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes

pytestmark = pytest.mark.slow

REVIEW = ChangeOrigin(author=RevisionAuthor.REVIEW, reason="said twice", sources=("web:\u202eevil.example\x1b[2J",))


async def memory(home: TempHome, *words: str) -> ProgramResult:
    return await run_hermes(home, "memory", *words)


async def test_entries_are_listed_added_removed_and_taken_back() -> None:
    with TempHome() as home:
        assert (await memory(home)).stdout.count("(empty)") == 2
        assert (await memory(home, "add", "--user", "Wants", "tea.")).stdout == (
            "Change 1. USER.md: 10/1,375 characters.\n"
        )
        assert (await memory(home, "add", "--user", "Wants tea.")).stdout.startswith("That is already there.")
        assert "- Wants tea." in (await memory(home, "list")).stdout
        rows = json.loads((await memory(home, "list", "--json")).stdout)
        assert [row["entries"] for row in rows] == [[], ["Wants tea."]]
        assert (await memory(home, "remove", "--user", "tea")).stdout.startswith("Change 2.")
        assert (await memory(home, "undo", "2")).stdout == "Change 2 (remove “Wants tea.”) is undone.\n"
        logged = (await memory(home, "log")).stdout
        assert "undone by person" in logged and "applied by person" in logged
        wrong = await memory(home, "undo", "2")
        assert wrong.code == 2 and "it is undone" in wrong.stderr
        assert (await memory(home, "approve", "77")).stderr.startswith("hermes: There is no change 77")


async def test_what_waits_is_shown_with_its_sources_and_inert() -> None:
    with TempHome() as home:
        async with open_memory_admin(home.environ) as desk:
            await desk.journal.propose_change(EntryChange(MemoryTarget.MEMORY, None, "one\nline\u202e\x1b[31m"), REVIEW)
        shown = (await memory(home, "pending")).stdout
        assert "untrusted content was in the conversation: web:\\u{202e}evil.example\\u{1b}[2J" in shown
        assert "      + one\n        line\\u{202e}\n" in shown and "said twice" in shown
        assert not any(char in shown for char in "\x1b\u202e")
        assert json.loads((await memory(home, "pending", "--json")).stdout)[0]["state"] == "pending"
        assert "is rejected" in (await memory(home, "reject", "1")).stdout
        assert (await memory(home, "pending")).stdout == "No change waits.\n"


async def test_the_chat_knows_the_same_words() -> None:
    async with ScriptedServer([Say("hello")]) as server:
        with TempHome.for_server(server.url) as home:
            async with open_memory_admin(home.environ) as desk:
                await desk.journal.propose_change(EntryChange(MemoryTarget.MEMORY, None, "one"), REVIEW)
            lines = b"/memory pending\n/memory approve 1\n/memory\n/memory undo 1\n/memory undo 1\n/memory juggle\n"
            done = await run_hermes(home, stdin=lines)
    assert "hermes memory approve 1" in done.stdout and "is applied" in done.stdout and "- one" in done.stdout
    assert "is undone." in done.stdout and "cannot be undone" in done.stdout and "/memory takes: pending" in done.stdout
    assert not server.requests
