"""What is in the input line and what goes out; and how a call that has ended is shown."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, DummyCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output import DummyOutput

from hermes.cli.desktop import copy_text
from hermes.cli.tui.call_view import CallView, TurnSummary
from hermes.cli.tui.composer import Composer, InputHistory
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.config.display import DisplaySettings, ToolProgress
from hermes.core.events import ToolEnded, ToolStarted
from hermes.core.messages import ToolStatus

LONG = "\n".join(f"line {number}" for number in range(20))


def composer(folder: Path) -> tuple[Composer, list[str]]:
    """One without an application around it: nothing is completed and nothing suggested."""
    sent: list[str] = []
    made = Composer(InputHistory(folder / "history.jsonl", str), DummyCompleter(), sent.append)
    made.buffer.auto_suggest, made.buffer.completer = None, None  # type: ignore[assignment]
    return made, sent


def send(line: Composer) -> None:
    line.buffer.validate_and_handle()
    line.clear_marks()


async def test_marks_inside_a_paste_stand_for_nothing(tmp_path: Path) -> None:
    line, _ = composer(tmp_path)
    line.paste_text(f"one {LONG}")
    line.paste_text(f"[pasted 1: 20 lines] two {LONG}")
    line.paste_text("[pasted 1: 20 lines] three")
    draft = line.resolve_draft(line.buffer.text)
    assert draft.text == f"one {LONG}[pasted 1: 20 lines] two {LONG}[pasted 1: 20 lines] three"
    other, _ = composer(tmp_path)
    other.buffer.text = "[pasted 1: 20 lines] of old, "
    other.buffer.cursor_position = len(other.buffer.text)
    other.paste_text(LONG)
    assert other.resolve_draft(other.buffer.text).text == f"[pasted 1: 20 lines] of old, {LONG}"


async def test_the_history_holds_no_marks_and_no_commands_that_were_pasted(tmp_path: Path) -> None:
    line, sent = composer(tmp_path)
    for pasted in (LONG, f"!echo\n{LONG}", f"/yolo\n{LONG}", "x" * 9_000):
        line.buffer.insert_text("" if pasted[0] in "!/" else "read: ")
        line.paste_text(pasted)
        send(line)
    assert [one.startswith("[pasted") for one in sent] == [False, True, True, False]
    kept = line.buffer.history.get_strings()
    assert kept == [f"read: {LONG}", f" !echo\n{LONG}", f" /yolo\n{LONG}", "read:"]


async def test_what_was_pasted_begins_no_command(tmp_path: Path) -> None:
    for pasted, stands in (("!ls", " !ls"), ("/quit\n", " /quit\n"), ("/tmp/a file", "/tmp/a file"), ("a!", "a!")):
        line, _ = composer(tmp_path)
        line.paste_text(pasted)
        assert line.buffer.text == stands
    line, _ = composer(tmp_path)
    line.buffer.insert_text("!")
    line.paste_text("!")
    assert line.buffer.text == "!!"


async def test_a_text_that_was_put_there_gives_way_to_a_command_only_untouched(tmp_path: Path) -> None:
    for text, typed, stands in (
        ("an old message", "/", "/"),
        ("an old message", "!", "!"),
        ("an old message", " more/", "an old message more/"),
        ("!an order", "", " !an order"),
        ("exit", "", " exit"),
        ("/an order", "/", "/"),
    ):
        line, _ = composer(tmp_path)
        line.prefill_input(text)
        for letter in typed:
            line.buffer.insert_text(letter)
        assert line.buffer.text == stands
        assert not line.buffer.history.get_strings() or line.buffer.history.get_strings()[-1].strip() == text
    line, _ = composer(tmp_path)
    line.prefill_input("an old message")
    line.paste_text("!")
    assert line.buffer.text == "an old message!"


async def test_a_line_with_an_end_of_unicode_is_read_whole(tmp_path: Path) -> None:
    past = InputHistory(tmp_path / "history.jsonl", str)
    past.store_string("one\u2028two\x85three")
    past.store_string("four")
    await past.close()
    assert past.load_history_strings() == ["four", "one\u2028two\x85three"]
    assert json.loads((tmp_path / "history.jsonl").read_text(encoding="utf-8").split("\n")[0]).startswith("one")


def test_tmux_is_asked_in_both_ways() -> None:
    written: list[str] = []
    copy_text("words", {"TMUX": "x", "PATH": ""}, written.append)
    copy_text("words", {"PATH": ""}, written.append)
    within, plain = written
    assert within == f"{plain}\x1bPtmux;\x1b{plain}\x1b\\"


async def test_a_program_that_failed_has_no_check_mark() -> None:
    for progress in ToolProgress:
        if progress is ToolProgress.OFF:
            continue
        look = TerminalStyle(DisplaySettings(tool_progress=progress), lambda: 80)
        work = CallView(look)
        text = "\n".join(["wrong", *map(str, range(13)), "[exit code 3]"])
        work.start_call(ToolStarted("c", "terminal", "{}", "make"))
        shown = "\n".join(work.end_call(ToolEnded("c", "terminal", ToolStatus.OK, 1.0, text, True, 3)))
        assert "✗" in shown and "✓" not in shown and "exit code 3" in shown
        assert ("+9 lines (Ctrl-O)" in shown) is (progress is ToolProgress.ALL)
        assert ("+2 lines (Ctrl-O)" in shown) is (progress is ToolProgress.VERBOSE)
        assert "did not succeed" in work.turn_summary.format_summary()
        assert "✗" in work.format_results()[1]
        work.start_call(ToolStarted("d", "terminal", "{}", "make"))
        shown = "\n".join(
            [
                *work.end_call(ToolEnded("d", "terminal", ToolStatus.OK, 1.0, "fine\n[exit code 0]")),
                *work.flush_folded(),
            ]
        )
        assert "✓" in shown and "more" not in shown
    assert not TurnSummary().format_summary()


class SlowCompleter(Completer):
    """Answers when it may, with the text that it was asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        self.asked.append(document.text_before_cursor)
        self.was_asked.set()
        await self.may_answer.wait()
        yield Completion(f"{document.text_before_cursor}-whole", start_position=-len(document.text_before_cursor))


async def test_a_line_that_became_another_one_during_a_lookup_is_looked_up(tmp_path: Path) -> None:
    slow = SlowCompleter()
    composer = Composer(InputHistory(tmp_path / "history.jsonl", str), slow, lambda _: None)
    shown = asyncio.Event()
    with set_app(Application(output=DummyOutput(), input=DummyInput())):
        composer.buffer.insert_text("@fi")
        async with asyncio.timeout(10):
            await slow.was_asked.wait()
            composer.buffer.reset()
            composer.buffer.insert_text("/evil")
            composer.buffer.on_completions_changed += lambda _: shown.set()
            slow.may_answer.set()
            while not (state := composer.buffer.complete_state) or not state.completions:
                shown.clear()
                await shown.wait()
    assert slow.asked == ["@fi", "/evil"]
    assert [one.text for one in state.completions] == ["/evil-whole"]
