"""Taking over what another agent's home holds: shown first, taken on a yes, once, and nothing changed there."""

import hashlib
import json
import secrets
import shutil
from pathlib import Path

import apsw
import pytest
import yaml

from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.admin.foreign_homes import BEGAN, add_message, agent_home, claw_home
from tests.e2e.screen import on_a_terminal
from tests.forked_hermes import run_hermes

ENGLISH = {"LANG": "en_US.UTF-8"}
FIRST = "20231114_221320_aaaaaa"


def new_key() -> str:
    return "sk-or-v1-" + secrets.token_hex(24)


def state(root: Path) -> dict[str, str]:
    """Every file below a folder with its content and mode."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() + oct(path.stat().st_mode)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


async def hermes(home: TempHome, *arguments: str, stdin: bytes = b"") -> ProgramResult:
    return await run_hermes(home, *arguments, stdin=stdin)


async def taken(home: TempHome, place: Path) -> ProgramResult:
    return await hermes(home, "setup", "--import", str(place), "--yes", "--no-test")


async def test_it_is_shown_and_without_a_yes_nothing_happens() -> None:
    key = new_key()
    with TempHome(more=ENGLISH) as home:
        old = agent_home(home.home / ".hermes", key=key)
        before = state(old)
        done = await hermes(home, "setup", "--import", str(old))
        assert done.code == 2 and "Run it again with --yes" in done.stderr
        for said in (
            "2 sessions, 6 messages",
            "2 memories",
            "1 note about you",
            "SOUL.md",
            "water-plants",
            "approvals",
        ):
            assert said in done.stdout, (said, done.stdout)
        assert "memory.memory_char_limit" in done.stdout and "kanban" in done.stdout
        assert key not in done.stdout and key[-8:] not in done.stdout
        assert list(home.hermes.iterdir()) == []
        assert state(old) == before


async def test_a_home_of_hermes_agent_is_taken_over_once() -> None:
    key = new_key()
    async with ScriptedServer([Say("Weekly.")]) as server:
        with TempHome(more={**ENGLISH, "OPENROUTER_BASE_URL": server.url}) as home:
            old = agent_home(home.home / ".hermes", key=key)
            before = state(old)
            done = await taken(home, old)
            assert done.code == 0, done
            assert state(old) == before
            config = yaml.safe_load((home.hermes / "config.yaml").read_text())
            assert config == {
                "model": {"default": "mock-model", "provider": "openrouter"},
                "agent": {"max_turns": 33},
                "memory": {"nudge_interval": 7},
            }
            assert (home.hermes / ".env").read_text() == f"OPENROUTER_API_KEY={key}\n"
            assert (home.hermes / "SOUL.md").read_text() == "You are a gardener.\n"
            assert (home.hermes / "memories" / "MEMORY.md").read_text() == "The garden is north."
            assert (home.hermes / "memories" / "USER.md").read_text() == "Likes tea."
            assert (home.hermes / "skills" / "water-plants" / "SKILL.md").exists()
            assert (
                not list(home.hermes.glob("skills/**/fetch-weather")) and "2 changes wait for your yes" in done.stdout
            )
            waiting = await hermes(home, "memory", "pending")
            assert "Ignore all previous" in waiting.stdout
            assert "fetch-weather" in (await hermes(home, "skills", "pending")).stdout
            shown = json.loads((await hermes(home, "sessions", "show", FIRST, "--json")).stdout)
            assert shown["title"] == "Plants" and shown["created_at"] == BEGAN
            assert [message["role"] for message in shown["messages"]] == ["user", "assistant", "tool", "assistant"]
            assert [message["created_at"] for message in shown["messages"]] == [BEGAN + n for n in (1, 2, 3, 4)]
            assert key not in json.dumps(shown)
            found = await hermes(home, "sessions", "search", "天气")
            assert FIRST[:15] in found.stdout
            again = await taken(home, old)
            news = again.stdout.partition("Taken over:")[2]
            assert "2 sessions were here already" in news and "memories" not in news and "skills" not in news
            add_message(old / "state.db", FIRST, "user", "And the fern?", BEGAN + 5)
            add_message(old / "state.db", FIRST, "assistant", "Daily.", BEGAN + 6)
            more = await taken(home, old)
            assert "1 session, 2 messages" in more.stdout, more
            answer = await hermes(home, "-z", "And the moss?", "--resume", FIRST)
            assert answer.stdout == "Weekly.\n", answer
            request = server.requests[-1]
            assert [message["role"] for message in request.json["messages"]][1:] == [
                *("user", "assistant", "tool", "assistant", "user", "assistant", "user")
            ]
            everything = done.stdout + done.stderr + again.stdout + more.stdout + waiting.stdout + found.stdout
            assert key not in everything and "123:abc" not in everything
            last = await taken(home, old)
            assert "were here already" in last.stdout and "gone on with" not in last.stdout


async def test_on_a_terminal_it_asks_and_a_second_time_says_what_is_new() -> None:
    with TempHome(more=ENGLISH) as home:
        old = agent_home(home.home / ".hermes", key=new_key())
        async with on_a_terminal(home, "setup", "--import", str(old), "--no-test") as screen:
            await screen.shows_next("2 sessions, 6 messages")
            await screen.shows_next("Take this over? [y/N]")
            screen.type("y\n")
            await screen.shows_next("Taken over:")
            assert await screen.end() == 0
        async with on_a_terminal(home, "setup", "--import", str(old), "--no-test") as screen:
            await screen.shows_next("Nothing new, unless")
            await screen.shows_next("2 of them are here already")
            await screen.shows_next("Take this over? [y/N]")
            for gone in ("2 memories", "1 memory", "SOUL.md", "water-plants", "max_turns", "+ variables"):
                assert gone not in screen.text, screen.text
            screen.type("\n")
            assert await screen.end() == 1


async def test_in_the_same_folder_only_files_of_our_own_are_made() -> None:
    key = new_key()
    async with ScriptedServer([Say("Hello.")]) as server:
        with TempHome(more={**ENGLISH, "OPENROUTER_BASE_URL": server.url}) as home:
            config = agent_home(home.hermes, key=key) / "config.yaml"
            config.write_text(config.read_text().replace("-5", "500").replace("  mode: 'off'", "  mode: ask"))
            before = state(home.hermes)
            async with on_a_terminal(home, "setup") as screen:
                await screen.shows_next("A home of hermes-agent")
                await screen.shows_next("Take this over? [y/N]")
                screen.type("\n")
                await screen.shows_next("another program's home too")
                screen.type("\n")
                await screen.shows_next("HERMES_HOME names another folder")
                assert await screen.end() == 78
                assert key not in screen.text
            assert state(home.hermes) == before
            async with on_a_terminal(home, "setup") as screen:
                await screen.shows_next("Take this over? [y/N]")
                screen.type("y\n")
                await screen.shows_next("Taken over:")
                await screen.shows_next("2 sessions, 6 messages")
                await screen.shows_next("This is set up:")
                await screen.shows_next("A number: [1]")
                screen.type("\n")
                await screen.shows_next("What next:")
                assert await screen.end() == 0
                assert key not in screen.text
            after = state(home.hermes)
            assert {name: after[name] for name in before} == before
            added = {Path(name).parts[0] for name in set(after) - set(before)}
            assert added <= {"hermes.db", "search.db", "run", "cache", "hermes.db-wal", "hermes.db-shm"}, added


async def test_a_database_in_use_is_read_with_its_log() -> None:
    with TempHome(more=ENGLISH) as home:
        old = agent_home(home.home / ".hermes", key=new_key(), bare=True)
        connection = apsw.Connection(str(old / "state.db"))
        connection.execute("UPDATE sessions SET title = 'In the log' WHERE id = ?", (FIRST,)).fetchall()
        assert (old / "state.db-wal").stat().st_size > 0
        before = state(old)
        done = await taken(home, old)
        assert "2 sessions, 6 messages" in done.stdout, done
        after = state(old)
        del before["state.db-shm"], after["state.db-shm"]  # readers note in it how far they have read
        assert after == before
        connection.close()
        shown = json.loads((await hermes(home, "sessions", "show", FIRST, "--json")).stdout)
        assert shown["title"] == "In the log"


async def test_a_home_of_openclaw_is_taken_over() -> None:
    key = new_key()
    with TempHome(more=ENGLISH) as home:
        old = claw_home(home.home / ".openclaw", key=key)
        before = state(old)
        done = await taken(home, old)
        assert done.code == 0 and key not in done.stdout + done.stderr, done
        assert state(old) == before
        config = yaml.safe_load((home.hermes / "config.yaml").read_text())
        assert config == {"model": {"default": "claude-x", "provider": "anthropic"}}
        assert (home.hermes / ".env").read_text() == f"ANTHROPIC_API_KEY={key}\n"
        memory = (home.hermes / "memories" / "MEMORY.md").read_text().split("\n§\n")
        assert memory == ["The boat is blue. It leaks.", "天气 matters.", "A paragraph."]
        assert (home.hermes / "memories" / "USER.md").read_text() == "Name: Kim\n§\nLives in Oslo"
        assert (home.hermes / "SOUL.md").read_text() == "You are a lobster.\n"
        shown = json.loads((await hermes(home, "sessions", "show", "b7300bff", "--json")).stdout)
        assert shown["title"] == "Where is the boat?" and shown["source"] == "openclaw"
        assert [message["role"] for message in shown["messages"]] == ["user", "assistant", "tool", "assistant"]
        result = shown["messages"][2]["content"]
        assert "\nat sea\n" in result and result.startswith('<untrusted source="other"')
        again = await taken(home, old)
        assert "1 session was here already" in again.stdout, again
        assert (home.hermes / "memories" / "MEMORY.md").read_text().count("boat") == 1


async def test_what_is_ours_stays_and_is_named() -> None:
    key, own = new_key(), new_key()
    with TempHome({"model": {"default": "mine", "provider": "ollama"}}, more=ENGLISH) as home:
        old = agent_home(home.home / ".hermes", key=key)
        (home.hermes / "SOUL.md").write_text("Mine.\n")
        (home.hermes / ".env").write_text(f"OPENROUTER_API_KEY={own}\n")
        done = await taken(home, old)
        assert "model.default: it is set already" in done.stdout and "SOUL.md: there is one" in done.stdout
        assert (home.hermes / "SOUL.md").read_text() == "Mine.\n"
        assert (home.hermes / ".env").read_text() == f"OPENROUTER_API_KEY={own}\n"
        config = yaml.safe_load((home.hermes / "config.yaml").read_text())
        assert config["model"] == {"default": "mine", "provider": "ollama"}
        assert own not in done.stdout and key not in done.stdout


@pytest.mark.parametrize("what", ["not a database", "no tables", "broken config", "an odd session"])
async def test_a_damaged_home_is_taken_as_far_as_it_goes(what: str) -> None:
    with TempHome(more=ENGLISH) as home:
        old = agent_home(home.home / ".hermes", key=new_key())
        if what == "not a database":
            (old / "state.db").write_bytes(secrets.token_bytes(5_000))
        elif what == "no tables":
            (old / "state.db").unlink()
            apsw.Connection(str(old / "state.db")).execute("CREATE TABLE x (y)").fetchall()
        elif what == "broken config":
            (old / "config.yaml").write_text("a: [\n")
        else:
            add_message(old / "state.db", FIRST, "tool", "for nobody", BEGAN + 9, tool_call_id="nobody")
            add_message(old / "state.db", FIRST, "assistant", "x", BEGAN + 10, tool_calls="[{broken")
            shutil.copy(old / "state.db", old / "state.db.copy")
        done = await taken(home, old)
        assert "Traceback" not in done.stderr, done
        assert (home.hermes / "SOUL.md").exists(), done
