"""References in messages: what is one, what it brings, and what is not brought."""

import asyncio
import subprocess

import msgspec
import pytest

from hermes.core.events import Event, Notice
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.sessions.references import MAX_LOOKUPS, PathKind, parse_references
from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("look at @file:src/a.py:10-20, please", ["@file:src/a.py:10-20"]),
        ("@file:a.py and @file:a.py again", ["@file:a.py"]),
        ("(@folder:src) @diff. @staged!", ["@folder:src", "@diff", "@staged"]),
        ('@file:"my notes.md" @url:https://a.example/x?y=1#z', ["@file:my notes.md", "@url:https://a.example/x?y=1#z"]),
        ("看 @file:说明.md。", ["@file:说明.md"]),
        ("请看@file:说明.md，再看@diff。", ["@file:说明.md", "@diff"]),
        ("mail me@file:x or x@diff, @different @diff-tool @diff/x", []),
        ("`@file:a` and\n```\n@diff\n```\n~~~\n@staged", []),
        ("@git:HEAD~2", ["@git:HEAD~2"]),
        ("@file: @url: @FILE:x", []),
    ],
)
def test_what_is_a_reference(text: str, written: list[str]) -> None:
    assert [one.written for one in parse_references(text)] == written


HERE = {
    "app.py": PathKind.FILE,
    "src/app.py": PathKind.FILE,
    "src/": PathKind.FOLDER,
    "src": PathKind.FOLDER,
    "Makefile": PathKind.FILE,
    "my notes": PathKind.FILE,
    "说明.md": PathKind.FILE,
}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("see @app.py:1-5, and @app.py.", ["@app.py:1-5", "@app.py"]),
        ("look into @src/ and (@src/app.py)", ["@src/", "@src/app.py"]),
        ("@Makefile @'my notes'", ["@Makefile", "@my notes"]),
        ("看@app.py的第一行，再看@说明.md。", ["@app.py", "@说明.md"]),
        (
            "@nofile.py @src/nothing.ts @other:3 @./x @../y @~/z",
            ["@nofile.py", "@src/nothing.ts", "@other:3", "@./x", "@../y", "@~/z"],
        ),
        ("me@example.py @decorator @app.route @pytest.fixture @types/node @scope/pkg @user, @", []),
        ("import x from '@/components/App.tsx' and @org/@thing @@app.py", []),
        ("`@app.py` and\n```\n@src/app.py\n```", []),
        ("@file:app.py @folder:src @git:HEAD @unknown:app.py", ["@file:app.py", "@folder:src", "@git:HEAD"]),
    ],
)
def test_a_path_alone_is_a_reference_where_it_exists(text: str, written: list[str]) -> None:
    found = parse_references(text, lambda name: HERE.get(name, PathKind.NOTHING))
    assert [one.written for one in found] == written


def test_lines_of_a_path_alone_are_a_window() -> None:
    (one,) = parse_references("@app.py:1-5", lambda _: PathKind.FILE)
    assert (one.name, msgspec.json.decode(one.arguments)) == ("read_file", {"path": "app.py", "offset": 1, "limit": 5})


def test_a_flood_of_names_is_looked_for_a_hundred_times_at_most() -> None:
    asked: list[str] = []

    def find_path(name: str) -> PathKind:
        asked.append(name)
        return PathKind.NOTHING

    assert parse_references(" ".join(f"@name{number}" for number in range(5_000)), find_path) == []
    assert len(asked) <= 2 * MAX_LOOKUPS


async def test_a_path_that_is_missing_is_told_and_an_address_is_not() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "a.py").write_text("first\nsecond\nthird\n")
            notices, _ = await told(
                home, server.url, "see @a.py:2-2, @gone.py, @file:nofile.py and me@a.py @types/node"
            )
        sent = server.requests[0].last_user_text
    assert "2|second" in sent and "first" not in sent
    assert [notice.partition(":")[0] for notice in notices] == ["@gone.py was not included", "@file"]


@pytest.mark.parametrize("text", ["@file:a.py:20-10", "@git:--output=/etc/passwd", "@git:a;b", "@git:$(id)"])
def test_what_cannot_be_meant_is_wrong(text: str) -> None:
    assert [bool(one.wrong) for one in parse_references(text)] == [True]


def test_lines_are_a_window() -> None:
    arguments = msgspec.json.decode(parse_references("@file:a.py:10-20")[0].arguments)
    assert arguments == {"path": "a.py", "offset": 10, "limit": 11}


async def told(home: TempHome, url: str, text: str) -> tuple[list[str], ExitReason]:
    events: list[Event] = []
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session()
        actor.subscribe(events.append)
        ended = await actor.post(InboundMessage(text=text, cwd=str(home.cwd)))
        assert actor.conversation.messages[0].text == text
        title = str((await app.session_row(actor))["title"])
        assert "untrusted" not in title and title.startswith(text[:20])
    return [event.text for event in events if isinstance(event, Notice)], ended.reason


@pytest.mark.needs("git")
async def test_files_folders_and_changes_come_along() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "a.py").write_text("".join(f"line {number}\n" for number in range(1, 41)))
            git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
            for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
                subprocess.run([*git, *command], cwd=home.cwd, check=True, env=home.environ)
            (home.cwd / "a.py").write_text("changed\n")
            (home.cwd / "b.py").write_text("staged\n")
            subprocess.run([*git, "add", "b.py"], cwd=home.cwd, check=True, env=home.environ)
            notices, _ = await told(home, server.url, "see @file:a.py:1-3 @folder:. @diff @staged @git:HEAD")
        sent = server.requests[0].last_user_text
        assert notices == []
        assert "1|changed" in sent and "b.py" in sent
        assert "-line 40" in sent and "+changed" in sent and "+staged" in sent and "+line 40" in sent
        assert "untrusted" in sent, "nobody vouches for the folder: its text is fenced"


async def test_what_is_closed_missing_or_private_is_said_and_not_brought() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.home / ".ssh").mkdir()
            (home.home / ".ssh" / "id_rsa").write_text("PRIVATE WORDS")
            (home.cwd / "bin.dat").write_bytes(b"\0" * 50)
            (home.cwd / "short.txt").write_text("one\n")
            refused = "@file:~/.ssh/id_rsa @file:nowhere.txt @url:http://169.254.169.254/latest @file:a:9-1"
            text = f"{refused} @diff @git:nope @file:bin.dat @file:short.txt:5-9"
            notices, reason = await told(home, server.url, text)
        sent = server.requests[0].last_user_text
        assert reason is ExitReason.TEXT_RESPONSE
        assert "PRIVATE WORDS" not in server.requests[0].body.decode()
        assert len(notices) == 8 and all("was not included" in line for line in notices)
        assert not any("untrusted" in line or "Do not try" in line for line in notices)
        assert sent.count("could not be included") == 8


async def test_a_large_file_is_cut_and_all_together_are_too() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            for number in range(6):
                (home.cwd / f"f{number}.txt").write_text("".join(f"{line} words\n" for line in range(6_000)))
            await told(home, server.url, " ".join(f"@file:f{number}.txt" for number in range(6)))
        size = len(server.requests[0].last_user_text)
        assert 50_000 < size < 64_000


async def test_a_stop_gives_up_what_is_being_brought() -> None:
    asked = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    slow = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = slow.sockets[0].getsockname()[1]
    more = {"security": {"allow_private_urls": [f"127.0.0.1:{port}"], "allowed_hosts": ["127.0.0.1"]}}
    async with slow, ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url, more_config=more) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                events: list[Event] = []
                actor.subscribe(events.append)
                answer = actor.post(InboundMessage(text=f"@url:http://127.0.0.1:{port}/page", cwd=str(home.cwd)))
                async with asyncio.timeout(60):
                    await asked.wait()
                assert actor.stop()
                async with asyncio.timeout(60):
                    ended = await answer
        assert ended.reason is ExitReason.INTERRUPTED and server.requests == []
        # The stop ended it, and not the limit of a fetch, which is told.
        assert not [one for one in events if isinstance(one, Notice)]
