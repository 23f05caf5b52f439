"""Taking back, going on, and looking at what changed, as it is typed."""

import asyncio
import json
from asyncio.subprocess import DEVNULL
from pathlib import Path

import pytest

from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import CHINESE, ENGLISH, set_language
from hermes.testing.script import Call, Reply, Say
from tests.commands.chat_surfaces import chat


def write(path: str, content: str) -> Say:
    return Say(calls=(Call("write_file", {"path": path, "content": content}),))


async def _git(folder: Path, *words: str) -> None:
    done = await asyncio.create_subprocess_exec(
        "git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.example", *words, stdout=DEVNULL
    )
    assert await done.wait() == 0


REPLIES: list[Reply] = [write("a.txt", "two\n"), Say("written"), Say("again")]


async def test_undo_gives_back_the_file_and_the_words_and_redo_returns() -> None:
    async with chat(REPLIES) as here:
        file = here.home.cwd / "a.txt"
        file.write_text("one\n")
        await here.say("change it")
        assert file.read_text() == "two\n"
        told = await here.desk.type_line("/undo")
        assert file.read_text() == "one\n" and here.desk.prefilled == ["change it"]
        assert "1 turn was taken back" in told and "Put back: a.txt" in told
        assert here.desk.actor.conversation.messages == []
        assert "back" in await here.desk.type_line("/redo") and file.read_text() == "two\n"
        with pytest.raises(NotFoundError):
            await here.desk.type_line("/redo")
        for wrong in ("/undo x", "/undo 0", "/redo 1", "/rollback -1"):
            with pytest.raises(UsageError):
                await here.desk.type_line(wrong)


async def test_retry_asks_the_same_again() -> None:
    async with chat([Say("one"), Say("two")]) as here:
        await here.say("how much is it?")
        await here.desk.type_line("/retry")
        assert [one.text for one in here.desk.posted] == ["how much is it?"]
        assert here.desk.posted[0].cwd == str(here.home.cwd)
        assert here.desk.actor.conversation.messages == []
        ended = await here.desk.actor.post(here.desk.posted[0])
        assert ended.text == "two"


async def test_a_rollback_is_chosen_and_a_diff_shown() -> None:
    async with chat(REPLIES) as here:
        file = here.home.cwd / "a.txt"
        file.write_text("one\n")
        await here.say("change it")
        assert "-one\n+two" in await here.desk.type_line("/diff")
        here.desk.answers.append(0)
        told = await here.desk.type_line("/rollback")
        assert here.desk.questions[-1].options[0].label == "change it"
        assert file.read_text() == "one\n" and "Put back: a.txt" in told
        assert len(here.desk.actor.conversation.messages) > 1
        assert "differs" in await here.desk.type_line("/diff 2")


async def test_of_a_new_link_a_diff_shows_only_that_it_is_one() -> None:
    async with chat([Say("hello")]) as here:
        await _git(here.home.cwd, "init")
        await _git(here.home.cwd, "commit", "--allow-empty", "-m", "begin")
        (here.home.home / "private.txt").write_text("what lies elsewhere\n")
        (here.home.cwd / "led").symlink_to(here.home.home / "private.txt")
        (here.home.cwd / "new.txt").write_text("what is new\n")
        told = await here.desk.type_line("/diff")
        assert "+what is new" in told and "**led** (created) a link" in told and "elsewhere" not in told, told


async def test_what_changed_is_told_in_the_language_of_the_person() -> None:
    async with chat(REPLIES) as here:
        (here.home.cwd / "a.txt").write_bytes(b"\0one\n")
        await here.say("change it")
        assert "(changed) not text" in await here.desk.type_line("/diff")
        set_language(CHINESE)
        try:
            assert "(已修改) 不是文本" in await here.desk.type_line("/diff")
            assert "已撤回 1 个回合。在说新内容之前" in await here.desk.type_line("/undo")
        finally:
            set_language(ENGLISH)


async def test_a_branch_is_gone_over_to_and_stands_below_its_parent() -> None:
    async with chat([Say("one"), Say("two")]) as here:
        await here.say("tell me")
        parent = here.desk.actor.session_id
        told = await here.desk.type_line("/branch another way")
        assert here.desk.actor.session_id != parent and parent in told
        await here.say("and more")
        await here.desk.type_line("/sessions")
        rows = [option.label for option in here.desk.questions[-1].options]
        assert rows == ["tell me", "└─ another way"]
        here.desk.answers.append("tell me")
        await here.desk.type_line("/sessions")
        assert here.desk.actor.session_id == parent


async def test_the_conversation_becomes_a_file() -> None:
    async with chat([Say("an answer")]) as here:
        await here.say("a question")
        await here.desk.type_line("/save talk.md")
        assert "an answer" in (here.home.cwd / "talk.md").read_text()
        await here.desk.type_line("/export talk.jsonl")
        lines = (here.home.cwd / "talk.jsonl").read_text().splitlines()
        assert json.loads(lines[1])["content"].startswith("a question")
        here.desk.answers += [False, True]
        (here.home.cwd / "page").write_text("mine")
        assert "Nothing was written" in await here.desk.type_line("/export page --format html")
        assert (here.home.cwd / "page").read_text() == "mine"
        await here.desk.type_line("/export page --format html")
        assert "<!doctype html>" in (here.home.cwd / "page").read_text()
        with pytest.raises(UsageError, match="no format"):
            await here.desk.type_line("/export talk.docx")


async def test_the_home_is_backed_up() -> None:
    async with chat([Say("an answer")]) as here:
        await here.say("a question")
        assert "Made:" in await here.desk.type_line("/snapshot create")
        assert ".zip" in await here.desk.type_line("/snap")
        with pytest.raises(UsageError):
            await here.desk.type_line("/snapshot restore x")
