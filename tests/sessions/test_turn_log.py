"""One line a turn in `hermes.log`, whoever asked; and hooks after a turn, which may fail without losing anything."""

import logging
import re
from pathlib import Path

import pytest

from hermes.agent.turn import TurnState
from hermes.core.events import Event, Notice, TurnEnded
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.sessions.turn_log import FILE_NAME, MAX_BYTES, OLD_FILE_NAME, TurnLog
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.ntfy import Fake

LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \d+ INFO hermes\.turns: turn exit: reason=(?P<reason>\w+)"
    r" last_role=(?P<role>\w+) exit_code=(?P<code>\d+) session=(?P<session>\S+) turn=\S+ platform=(?P<platform>\w+)"
    r" model=\S+ calls=(?P<calls>\d+) tokens=(?P<tokens>\d+) input=\d+ output=\d+ cached=\d+ seconds=\d+\.\d\d"
    r" cost_usd=\S+"
)


def lines_of(home: TempHome, name: str = FILE_NAME) -> list[re.Match[str]]:
    found = [LINE.fullmatch(line) for line in (home.hermes / "logs" / name).read_text().splitlines()]
    assert all(found), (home.hermes / "logs" / name).read_text()
    return [one for one in found if one is not None]


@pytest.mark.slow
async def test_a_task_of_the_command_line_writes_one_line_and_logs_shows_it() -> None:
    replies: list[Reply] = [Say(calls=(Call("todo", {}),)), Say("the secret answer"), *[Say("")] * 9]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            assert (await run_hermes(home, "-z", "a private question")).code == 0
            assert (await run_hermes(home, "-z", "again")).code == 1
            shown = (await run_hermes(home, "logs", "--json")).stdout
            quiet = (await run_hermes(home, "logs", "--level", "warning")).stdout
            written = lines_of(home)
    assert [(one["reason"], one["code"], one["platform"]) for one in written] == [
        ("text_response", "0", "cli"),
        ("empty_response_exhausted", "1", "cli"),
    ]
    assert (written[0]["role"], written[0]["calls"]) == ("assistant", "2") and int(written[0]["tokens"]) > 0
    assert shown.count('"turn exit: reason=') == 2 and "turn exit" not in quiet
    assert "private" not in shown and "secret answer" not in shown


async def test_a_turn_of_the_gateway_writes_one_line() -> None:
    async with ScriptedServer([Say("hello")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("hi")
                await chat.until(lambda: "hello" in chat.text())
            (line,) = lines_of(home)
    assert (line["reason"], line["platform"]) == ("text_response", "ntfy")


async def test_a_hook_that_fails_loses_neither_the_answer_nor_the_session(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    told: list[str] = []

    async def fail(_state: TurnState, _ended: TurnEnded) -> None:
        raise ZeroDivisionError("in a hook")

    async def note(state: TurnState, _ended: TurnEnded) -> None:
        seen.append(state.turn_id)

    def hear(event: Event) -> None:
        if isinstance(event, Notice):
            told.append(event.text)

    async with ScriptedServer([Say("one"), Say("two")]) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.on_turn_end[:0] = [fail]
                actor.on_turn_end.append(note)
                actor.subscribe(hear)
                assert (await actor.post(InboundMessage(text="go"))).text == "one"
                assert (await actor.post(InboundMessage(text="on"))).text == "two"
            assert len(lines_of(home)) == 2
    assert len(seen) == 2 and caplog.text.count("ZeroDivisionError: in a hook") == 2
    said = "The answer stands, but what Hermes does after a turn has failed (ZeroDivisionError: in a hook)."
    assert told == [said] * 2


async def test_the_log_is_bounded_private_and_no_reason_to_fail(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hermes.turns")
    async with ScriptedServer(ScriptedModel(lambda _: Say("hello"))) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                await actor.post(InboundMessage(text="one"))
                file: Path = home.hermes / "logs" / FILE_NAME
                assert file.stat().st_mode & 0o077 == 0
                with open(file, "ab") as opened:
                    opened.truncate(MAX_BYTES)
                await actor.post(InboundMessage(text="two"))
                assert not file.exists() and (file.with_name(OLD_FILE_NAME)).stat().st_size > MAX_BYTES
                await actor.post(InboundMessage(text="three"))
                assert len(lines_of(home)) == 1
                file.unlink()
                file.mkdir()
                assert (await actor.post(InboundMessage(text="four"))).text == "hello"
    assert caplog.text.count("turn exit: reason=text_response") == 4


def test_what_a_terminal_would_obey_is_spelled_out(tmp_path: Path) -> None:
    log = TurnLog(tmp_path, lambda text: text, SystemClock())
    log.write_line("model=a\x1b]0;x\x07b\u202ec 模型")
    assert (tmp_path / "hermes.log").read_text().endswith("model=a\\x1b]0;x\\x07b\\x202ec 模型\n")
