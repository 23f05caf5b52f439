"""The verbs that look after a home: doctor, status, logs, insights, sessions. With real processes and databases."""

import asyncio
import json
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

import apsw
import pytest

from hermes.admin.doctor import OK, PROBLEM, WARNING, DoctorCheck, check_home
from hermes.admin.logs import LogFilter, follow_log, parse_since, read_log
from hermes.admin.status import collect_status
from hermes.admin.usage import report_insights
from hermes.commands.usage import format_insights
from hermes.config.home import HermesHome
from hermes.core.errors import UsageError
from hermes.runtime.locks import session_lock
from hermes.testing.clock import ManualClock
from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.sessions.stored_sessions import say_in, spend, texts_of

pytestmark = pytest.mark.slow


async def hermes(home: TempHome, *arguments: str, stdin: bytes = b"") -> ProgramResult:
    return await run_hermes(home, *arguments, stdin=stdin)


def checked(checks: list[DoctorCheck]) -> dict[str, DoctorCheck]:
    return {check.name: check for check in checks}


async def test_a_home_in_order_is_called_so_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    with TempHome.for_server("http://127.0.0.1:9/v1") as home:
        # Other tests, which kill what they start, leave temporary folders in the machine's own.
        monkeypatch.setattr(tempfile, "tempdir", str(home.root / "tmp"))
        await say_in(home, "s1", "hello")
        home.hermes.chmod(0o700)
        (home.hermes / "config.yaml").chmod(0o600)
        await check_home(home.environ)  # settings that are read keep a cache
        before = sorted(home.hermes.rglob("*"))
        checks = await check_home(home.environ)
        assert {check.state for check in checks} == {OK} and not any(check.fixed or check.advice for check in checks)
        assert sorted(home.hermes.rglob("*")) == before


async def test_fix_mends_what_is_safe_and_says_so() -> None:
    with TempHome.for_server("http://127.0.0.1:9/v1") as home:
        await say_in(home, "s1", "hello")
        (home.hermes / ".env").write_text("A_KEY=x")
        home.hermes.chmod(0o755)
        for name in ("run", "spill/gone", "spill/s1", ".restore-dead"):
            (home.hermes / name).mkdir(parents=True)
        for name in ("run/gone.lock", "run/s1.lock", "run/held.lock"):
            (home.hermes / name).write_text("1 1\n")
        os.utime(home.hermes / ".restore-dead", (1, 1))
        (home.hermes / "search.db").write_text("no database")
        async with session_lock(home.hermes / "run", "held"):
            found = checked(await check_home(home.environ))
            states = {name: found[name].state for name in ("permissions", "locks", "results", "leftovers", "search")}
            assert states == dict.fromkeys(states, WARNING) | {"permissions": PROBLEM}
            done = checked(await check_home(home.environ, fix=True))
        assert all(done[name].fixed for name in states) and all(check.state == OK for check in done.values())
        assert sorted(one.name for one in (home.hermes / "run").iterdir()) == ["held.lock", "s1.lock"]
        assert [one.name for one in (home.hermes / "spill").iterdir()] == ["s1"]
        assert (home.hermes / ".env").stat().st_mode & 0o077 == 0 and home.hermes.stat().st_mode & 0o077 == 0
        assert {check.state for check in await check_home(home.environ, fix=True)} == {OK}


async def test_a_damaged_database_is_never_mended_and_the_newest_backup_is_named() -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", *[f"words {number}" * 50 for number in range(200)])
        assert (await hermes(home, "backup")).code == 0
        file = home.hermes / "hermes.db"
        with open(file, "r+b") as opened:
            opened.seek(4096 * 8)
            opened.write(os.urandom(4096 * 20))
        data = file.read_bytes()
        found = checked(await check_home(home.environ, fix=True))["database"]
        assert found.state == PROBLEM and "hermes restore hermes-" in found.advice and file.read_bytes() == data
        done = await hermes(home, "doctor")
        assert done.code == 1 and "!! database" in done.stdout
        name = found.advice.split("`")[1].split()[2]
        assert (await hermes(home, "restore", name, "--yes")).code == 0
        assert len(await texts_of(home, "s1")) == 200


async def test_wrong_settings_are_named_and_left() -> None:
    with TempHome({}) as home:
        (home.hermes / "config.yaml").write_text("model: [unclosed")
        done = await hermes(home, "doctor", "--fix", "--json")
        said = json.loads(done.stdout)
        assert done.code == 1 and checked([DoctorCheck(**one) for one in said["checks"]])["settings"].state == PROBLEM
        assert (home.hermes / "config.yaml").read_text() == "model: [unclosed"


async def test_hidden_tools_are_told_with_what_they_lack() -> None:
    with TempHome.for_server("http://127.0.0.1:9/v1", more_config={"web": {"search_backend": "brave"}}) as home:
        told = [(check.state, check.said) for check in await check_home(home.environ) if check.name == "tools"]
    texts = {said: state for state, said in told}
    home_tools = "ha_list_entities, ha_get_state, ha_list_services, ha_call_service"
    assert texts[f"Hidden from the model: {home_tools}; it needs the variable HASS_TOKEN."] == OK
    chosen = "Hidden from the model: web_search; `web.search_backend` names brave, and its key BRAVE_SEARCH_API_KEY"
    assert [state for said, state in texts.items() if said.startswith(chosen)] == [WARNING]


async def test_status_is_one_screen_and_says_whether_the_model_answers() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("x"))) as server:
        with TempHome.for_server(server.url, more_config={"spending": {"day": {"tokens": 1_000_000}}}) as home:
            assert (await hermes(home, "-z", "hello")).code == 0
            done = await hermes(home, "status")
            assert done.code == 0 and len(done.stdout.splitlines()) <= 24
            assert "mock-model, custom" in done.stdout and "answers in" in done.stdout and "1 session" in done.stdout
            assert "of 1,000,000 tokens left" in done.stdout
            found = json.loads((await hermes(home, "status", "--json", "--offline")).stdout)
            assert found["model"]["reached"] is None and found["sessions"] == 1 and found["pending"]["approvals"] == 0
            assert found["today"]["calls"] >= 1 and found["disk"]["bytes"] > 0
            assert "x" not in [key.get("key") for key in found["keys"]]


async def test_a_silent_server_costs_two_seconds_at_the_most() -> None:
    silent = socket.create_server(("127.0.0.1", 0))  # nobody ever accepts
    url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
    with silent, TempHome.for_server(url) as home:
        async with asyncio.timeout(60):
            found = await collect_status(home.environ, str(home.cwd))
        assert found["model"]["reached"] is False  # type: ignore[index]
        assert "within 2 s" in found["model"]["wrong"]  # type: ignore[index]
        assert not (home.hermes / "hermes.db").exists()


def log(home: TempHome, *lines: str, name: str = "errors.log", mode: str = "a") -> Path:
    file = home.hermes / "logs" / name
    file.parent.mkdir(exist_ok=True)
    with open(file, mode) as opened:
        opened.writelines(f"{line}\n" for line in lines)
    return file


def entry(text: str, level: str = "ERROR", ago: float = 0.0) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - ago))
    return f"{at},123 42 {level} hermes.tools: {text}"


async def test_logs_are_chosen_by_level_time_and_session() -> None:
    with TempHome({}) as home:
        log(home, entry("the oldest", ago=90_000), name="errors.old.log")
        log(
            home,
            entry("failed in s1"),
            "Traceback:",
            "  line \x1b[31m2",
            entry("small", "WARNING"),
            entry("old", ago=7_200),
        )
        kept = HermesHome(home.hermes)
        assert [one.text.split("\n")[0] for one in read_log(kept, LogFilter(), 10)] == [
            "the oldest",
            "old",
            "failed in s1",
            "small",
        ]
        assert [one.level for one in read_log(kept, LogFilter(level="error", since=time.time() - 60), 10)] == ["error"]
        assert len(read_log(kept, LogFilter(session="s1"), 10)) == 1
        done = await hermes(home, "logs", "-n", "2", "--since", "1h")
        assert "\x1b" not in done.stdout and "    Traceback:" in done.stdout and "the oldest" not in done.stdout
        rows = [json.loads(line) for line in (await hermes(home, "logs", "--json")).stdout.splitlines()]
        assert len(rows) == 4 and rows[2]["text"].endswith("line \x1b[31m2") and rows[2]["pid"] == 42
        assert (await hermes(home, "logs", "--since", "yesterday")).code == 2


async def test_following_survives_a_file_that_begins_anew() -> None:
    with TempHome({}) as home:
        file = log(home, entry("before"))
        seen: list[str] = []
        arrived = asyncio.Event()

        async def follow() -> None:
            async for one in follow_log(HermesHome(home.hermes), LogFilter()):
                seen.append(one.text)
                arrived.set()

        async def appears(text: str) -> None:
            while text not in seen:
                arrived.clear()
                await asyncio.wait_for(arrived.wait(), 60)

        task = asyncio.create_task(follow())
        await asyncio.sleep(0)
        log(home, entry("one"))
        await appears("one")
        log(home, entry("two"))
        file.replace(file.with_name("errors.old.log"))
        log(home, entry("three"))
        await appears("three")
        log(home, entry("four"), mode="w")
        await appears("four")
        task.cancel()
        assert seen == ["one", "two", "three", "four"]


def test_times_are_understood() -> None:
    assert parse_since("2h", 10_000) == 10_000 - 7_200 and parse_since("1.5d", 200_000) == 200_000 - 129_600
    assert parse_since("2026-11-01", 0) == time.mktime((2026, 11, 1, 0, 0, 0, 0, 0, -1))
    for text in ("", "soon", "2x", "-1h"):
        with pytest.raises(UsageError):
            parse_since(text, 0)


async def test_insights_add_up_and_unpriced_calls_are_never_nothing() -> None:
    with TempHome({}) as home:
        now = time.time()
        await say_in(home, "s1", "hello")
        await spend(home, 1_000_000_000, 500_000_000, clock=ManualClock(now))
        await spend(home, None, None, clock=ManualClock(now - 2 * 86_400), model="free-of-price")
        await spend(home, 7, clock=ManualClock(now - 40 * 86_400))
        found = await report_insights(home.environ, days=7)
        days = found["days"]
        assert isinstance(days, list) and len(days) == 7
        assert [row["calls"] for row in days] == [0, 0, 0, 0, 2, 0, 2] and sum(found["hours"]) == 4  # type: ignore[arg-type]
        assert sum(found["weekdays"]) == 4 and found["sessions"] == 1  # type: ignore[arg-type]
        lines = format_insights(found, 80)
        text = "\n".join(lines)
        assert "1.50 USD and 2 calls of unknown cost" in text and "unpriced" in text and "$1.50" in text
        assert "0.00" not in text and "at least" not in text and all(len(line) <= 80 for line in lines)
        plain = "\n".join(format_insights(found, 80, words=True))
        assert "█" not in plain and "busiest hour" in plain
        assert (await hermes(home, "insights", "--days", "0")).code == 2
        assert json.loads((await hermes(home, "insights", "--json")).stdout)["total"]["calls"] == 4
        shown = await hermes(home, "usage")
        assert "cost not known: the model has no listed price" in shown.stdout and "at least" not in shown.stdout


async def test_sessions_are_renamed_pruned_and_counted() -> None:
    with TempHome({}) as home:
        old = ManualClock(time.time() - 100 * 86_400)
        await say_in(home, "old1", "x", clock=old)
        await say_in(home, "old2", "secret words", clock=old)
        await say_in(home, "new1", "y")
        done = await hermes(home, "sessions", "rename", "new1", "my", "\x1b[31mname")
        assert done.code == 0 and 'is called "my [31mname"' in done.stdout
        assert (await hermes(home, "sessions", "rename", "new1", "  ")).code == 2
        listed = json.loads(
            (await hermes(home, "sessions", "prune", "--older-than", "90d", "--dry-run", "--json")).stdout
        )
        assert [row["id"] for row in listed] == ["old1", "old2"]
        assert (await hermes(home, "sessions", "prune", "--older-than", "90d")).code == 2
        async with session_lock(home.hermes / "run", "old1"):
            done = await hermes(home, "sessions", "prune", "--older-than", "90d", "--yes")
            assert done.code == 0 and "1 session deleted." in done.stdout and "1 is open and stays." in done.stderr
        assert b"secret words" not in (home.hermes / "hermes.db").read_bytes()
        stats = json.loads((await hermes(home, "sessions", "stats", "--json")).stdout)
        assert (stats["sessions"], stats["messages"]) == (2, 2) and stats["models"][0]["key"] == "mock-model"


async def test_an_exported_page_is_text_and_runs_nothing() -> None:
    with TempHome({}) as home:
        await say_in(
            home, "s1", "<script>alert(1)</script> & <img src=x onerror=y> \x1b]52;c;x\x07", "```\n# not a heading\n```"
        )
        page = (await hermes(home, "sessions", "export", "s1", "--format", "html")).stdout
        assert "<script" not in page and "<img" not in page and "&lt;script&gt;" in page and "\x1b" not in page
        assert "default-src 'none'" in page and "http" not in page.replace("http-equiv", "")
        text = (await hermes(home, "sessions", "export", "s1", "--format", "md")).stdout
        assert text.startswith("# about s1\n") and "## Person" in text and "\x1b" not in text
        lines = (await hermes(home, "sessions", "export", "s1")).stdout.splitlines()
        assert [json.loads(line).get("role") for line in lines] == [None, "user", "user"]


async def test_the_ending_of_a_file_says_the_format_of_an_export() -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", "hello")
        for name, begin in {"s.html": "<!doctype html>", "s.MD": "# about s1", "s.jsonl": "{", "s": "{"}.items():
            done = await hermes(home, "sessions", "export", "s1", "-o", name)
            assert (done.code, done.stdout) == (0, "") and done.stderr.startswith(f"hermes: Written: {name} ("), done
            assert (home.cwd / name).read_text().lower().startswith(begin.lower())
        for name in ("s.pdf", "s.json"):
            done = await hermes(home, "sessions", "export", "s1", "-o", name)
            assert done.code == 2 and f"{name} says no format" in done.stderr and not (home.cwd / name).exists()
        assert (await hermes(home, "sessions", "export", "s1", "-o", "s.txt", "--format", "md")).code == 0
        assert (home.cwd / "s.txt").read_text().startswith("# about s1")


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({}, "!  model        No model is set up yet. `hermes setup` sets one up"),
        ({"model": {"provider": "openrouter", "default": "a/b"}}, "!! model        "),
        ({"model": {"provider": "nowhere", "default": "x"}}, "!! model        There is no provider"),
        (
            {"model": {"provider": "ollama", "default": "qwen3"}},
            "ok model        qwen3 from Ollama is set up; `hermes model test` tries it.",
        ),
        ({"model": {"provider": "local"}}, "ok model        The small model that comes along answers."),
    ],
)
async def test_the_model_and_its_key_are_checked(config: dict[str, object], line: str) -> None:
    with TempHome(config) as home:
        done = await hermes(home, "doctor")
    (found,) = [one for one in done.stdout.splitlines() if one[3:].startswith("model ")]
    assert found.startswith(line), found
    if found.startswith("!!"):
        assert done.code == 1


async def test_a_home_that_is_not_there_yet_lacks_a_model_and_names_the_next_step() -> None:
    with TempHome({}) as home:
        shutil.rmtree(home.hermes)
        done = await hermes(home, "doctor")
    assert done.code == 0 and "No model is set up yet. `hermes setup`" in done.stdout and not home.hermes.exists()


async def test_the_index_is_found_behind_and_brought_up() -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", "hello")
        assert (await hermes(home, "sessions", "search", "hello")).code == 0
        await say_in(home, "s1", "and more", "of it")
        found = checked(await check_home(home.environ))["search"]
        assert found.state == OK and "lacks 2 messages" in found.said
        done = checked(await check_home(home.environ, fix=True))["search"]
        assert "2 messages taken in" in done.fixed
        connection = apsw.Connection(str(home.hermes / "search.db"))
        assert connection.execute("SELECT value FROM state WHERE key = 'message'").get == 3
        connection.close()


async def test_the_engine_of_code_is_the_one_that_the_settings_name() -> None:
    with TempHome({"code_execution": {"engine": "python"}}) as home:
        done = await hermes(home, "doctor")
    (found,) = [one for one in done.stdout.splitlines() if one[3:].startswith("code ")]
    assert "runs in Python, as code_execution.engine says" in found
