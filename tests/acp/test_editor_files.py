"""Unsaved files of an editor: read as they stand there, saved before a call changes them, and nothing else."""

import os
from pathlib import Path
from typing import Any

import pytest

from hermes.testing.script import Call, Say
from tests.acp.conftest import OpenEditor
from tests.acp.editor import Editor, allow

pytestmark = pytest.mark.slow
OFFERS = {"fs": {"readTextFile": True, "writeTextFile": True}}
READ = Say(calls=(Call("read_file", {"path": "a.txt"}),))
CHANGE = Say(calls=(Call("patch", {"path": "a.txt", "old_string": "typed", "new_string": "changed"}),))


class Buffers:
    """The open files of an editor; a write saves, as editors do."""

    def __init__(self, editor: Editor, **texts: str) -> None:
        self.texts = {str(editor.home.cwd / name.replace("_", ".")): text for name, text in texts.items()}
        editor.answers["fs/read_text_file"] = self.read
        editor.answers["fs/write_text_file"] = self.write

    def read(self, params: Any) -> object:
        path = params["path"]
        return {"content": self.texts[path] if path in self.texts else Path(path).read_text()}

    def write(self, params: Any) -> object:
        self.texts[params["path"]] = params["content"]
        Path(params["path"]).write_text(params["content"])
        return {}


def list_methods(editor: Editor) -> list[str]:
    return [method for method, _ in editor.asked if method.startswith("fs/")]


async def test_an_unsaved_text_is_read_changed_and_brought_back_by_undo(open_editor: OpenEditor) -> None:
    async with open_editor([READ, CHANGE, Say("Done.")], capabilities=OFFERS) as editor:
        file = editor.home.cwd / "a.txt"
        file.write_text("saved\n")
        Buffers(editor, a_txt="typed but not saved\n")
        session = await editor.open_session()
        await editor.prompt(session, "change it")
        read, changed = editor.find_calls().values()
        assert "1|typed but not saved" in read["content"][0]["content"]["text"]
        assert changed["status"] == "completed"
        assert file.read_text() == "changed but not saved\n"
        assert list_methods(editor) == ["fs/read_text_file", "fs/read_text_file", "fs/write_text_file"]
        editor.answers["session/request_permission"] = allow()
        await editor.prompt(session, "/rollback 1")
        await editor.prompt(session, "/undo")
        assert file.read_text() == "typed but not saved\n"  # what the person had typed, not what was on disk


async def test_an_editor_may_tidy_blanks_when_it_saves(open_editor: OpenEditor) -> None:
    async with open_editor([READ, CHANGE, Say("Done.")], capabilities=OFFERS) as editor:
        file = editor.home.cwd / "a.txt"
        file.write_text("saved\n")
        buffers = Buffers(editor, a_txt="typed \nwithout an end")

        def write(params: Any) -> object:
            return buffers.write({**params, "content": "typed\nwithout an end\n"})

        editor.answers["fs/write_text_file"] = write
        session = await editor.open_session()
        await editor.prompt(session, "change it")
        assert file.read_text() == "changed\nwithout an end\n"


async def test_a_text_without_its_last_line_end_is_saved(open_editor: OpenEditor) -> None:
    async with open_editor([READ, Say("Done.")], capabilities=OFFERS) as editor:
        (editor.home.cwd / "a.txt").write_text("saved\n")
        Buffers(editor, a_txt="saved")
        session = await editor.open_session()
        await editor.prompt(session, "read it")
        (read,) = editor.find_calls().values()
        assert "not saved" not in str(read["content"])


async def test_what_was_typed_since_it_was_read_is_noticed(open_editor: OpenEditor) -> None:
    async with open_editor([READ, CHANGE, Say("Done.")], capabilities=OFFERS) as editor:
        file = editor.home.cwd / "a.txt"
        file.write_text("saved\n")
        buffers = Buffers(editor, a_txt="typed\n")
        texts = iter(["typed\n", "typed more\n"])
        editor.answers["fs/read_text_file"] = lambda _: {"content": next(texts)}
        editor.answers["fs/write_text_file"] = buffers.write
        session = await editor.open_session()
        await editor.prompt(session, "change it")
        _, changed = editor.find_calls().values()
        assert changed["status"] == "failed"
        assert "changed on disk since you last saw it" in changed["content"][-1]["content"]["text"]
        assert file.read_text() == "typed more\n"


async def test_nothing_outside_of_the_workspace_is_asked_for(open_editor: OpenEditor) -> None:
    replies = [
        Say(calls=(Call("read_file", {"path": "link"}), Call("read_file", {"path": "../outside.txt"}))),
        Say("Done."),
    ]
    async with open_editor(replies, capabilities=OFFERS) as editor:
        outside = editor.home.cwd.parent / "outside.txt"
        outside.write_text("outside\n")
        os.symlink(outside, editor.home.cwd / "link")
        Buffers(editor)
        editor.answers["session/request_permission"] = allow()
        session = await editor.open_session()
        await editor.prompt(session, "read")
        assert list_methods(editor) == []


async def test_while_a_process_runs_files_are_read_from_disk(open_editor: OpenEditor) -> None:
    replies = [Say(calls=(Call("terminal", {"command": "sleep 100", "background": True}),)), READ, Say("Done.")]
    async with open_editor(replies, capabilities=OFFERS) as editor:
        (editor.home.cwd / "a.txt").write_text("saved\n")
        Buffers(editor, a_txt="typed\n")
        session = await editor.open_session()
        await editor.prompt(session, "read")
        assert list_methods(editor) == []
        assert "saved" in str(list(editor.find_calls().values())[1]["content"])


@pytest.mark.parametrize("answer", [None, {"content": 7}, {}])
async def test_an_editor_that_does_not_say_changes_nothing(open_editor: OpenEditor, answer: object) -> None:
    async with open_editor([READ, Say("Done.")], capabilities=OFFERS) as editor:
        (editor.home.cwd / "a.txt").write_text("saved\n")
        if answer is not None:
            editor.answers["fs/read_text_file"] = lambda _: answer
        session = await editor.open_session()
        await editor.prompt(session, "read")
        (call,) = editor.find_calls().values()
        assert "saved" in call["content"][0]["content"]["text"]


async def test_what_comes_along_is_as_untrusted_as_its_folder(open_editor: OpenEditor) -> None:
    async with open_editor([Say("Read.")], capabilities=OFFERS) as editor:
        (editor.home.cwd / "b.txt").write_text("linked\n")
        session = await editor.open_session()
        uri = (editor.home.cwd / "a.txt").as_uri()
        block = {"type": "resource", "resource": {"uri": uri, "text": "embedded", "mimeType": "text/plain"}}
        link = {"type": "resource_link", "name": "b.txt", "uri": (editor.home.cwd / "b.txt").as_uri()}
        Buffers(editor, b_txt="linked and unsaved\n")
        await editor.prompt(session, "look", block, link)
        assert editor.server is not None
        sent = editor.server.requests[-1].body.decode()
        before, _, behind = sent.partition("embedded")
        assert before.count("<untrusted") == 1 and "</untrusted" in behind
        assert "1|linked and unsaved" in sent
