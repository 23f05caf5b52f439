"""Keys end to end: which one reaches the server, `auth.json`, `hermes auth`, and that no key is shown anywhere."""

import json
import os
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hermes.admin.auth import KeyAdmin
from hermes.config.auth_file import AuthEntry, add_entry, read_entries, remove_entry
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.core.errors import ConfigError, NotFoundError, UsageError
from hermes.core.events import Event, Retrying
from hermes.providers.resolve import ModelChoice, is_configured, resolve_endpoint
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.sessions.python_library.credential_pool import parse_credential_pool
from hermes.testing.clock import ManualClock
from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Fail, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes

pytestmark = pytest.mark.slow

A, B, C = ("sk-" + os.urandom(12).hex() for _ in range(3))
NAMES = {A: "A", B: "B", C: "C"}


def shown(server: ScriptedServer) -> str:
    """The keys that the server saw, in order."""
    return "".join(
        NAMES.get(request.headers["authorization"].removeprefix("Bearer "), "?") for request in server.requests
    )


def home_for(server: ScriptedServer, keys: str = f"{A},{B},{C}", **config: object) -> TempHome:
    model = {"default": "m", "provider": "openrouter", "base_url": server.url, "context_length": 100_000}
    return TempHome({"model": model, **config}, more={"OPENROUTER_API_KEYS": keys})


def nothing_of_a_key(root: Path) -> None:
    for file in (file for file in root.rglob("*") if file.is_file()):
        content = file.read_bytes()
        assert not any(key.encode() in content or key[4:20].encode() in content for key in NAMES), file


async def say(app: App, times: int = 1) -> list[Event]:
    events: list[Event] = []
    actor = await app.open_session()

    actor.subscribe(events.append)
    for _ in range(times):
        await actor.post(InboundMessage(text="hi", cwd=app.options.cwd))
    await app.close_session(actor)
    return events


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("fill_first", {"A": 9}), ("round_robin", {"A": 3, "B": 3, "C": 3}), ("least_used", {"A": 3, "B": 3, "C": 3})],
)
async def test_the_histogram_at_the_server_follows_the_strategy(strategy: str, expected: dict[str, int]) -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("ok"))) as server:
        with home_for(server, credential_pool_strategies={"openrouter": strategy}) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                for _ in range(3):
                    await say(app, 3)
            assert Counter(shown(server)) == expected
            nothing_of_a_key(home.hermes)


async def test_random_uses_them_all() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("ok"))) as server:
        with home_for(server, credential_pool_strategies={"openrouter": "random"}) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                await say(app, 30)
    assert set(shown(server)) == {"A", "B", "C"}


async def test_a_limit_rotates_and_ends_when_the_provider_said() -> None:
    replies: list[Reply] = [Fail(429, headers={"retry-after": "2"}), Say("x"), Say("y"), Say("z")]
    clock = ManualClock()
    async with ScriptedServer(replies) as server:
        with home_for(server) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd)), clock=clock) as app:
                events = await say(app)
                await clock.advance(1.9)
                await say(app)
                await clock.advance(0.2)
                await say(app)
            nothing_of_a_key(home.hermes)
    assert shown(server) == "ABBA"
    assert any(isinstance(event, Retrying) and "another key" in event.message for event in events)
    assert not any(key in repr(events) for key in NAMES)


async def test_a_refused_key_is_replaced_and_shown_nowhere() -> None:
    def reply(request: RecordedRequest) -> Reply:
        bad = A in request.headers["authorization"]
        return Fail(401, message=f"Incorrect API key provided: {A}", code="invalid_api_key") if bad else Say("ok")

    async with ScriptedServer(ScriptedModel(reply)) as server:
        with home_for(server) as home:
            done = await run_hermes(home, "-z", "hi")
            again = await run_hermes(home, "-z", "hi")
            listed = await run_hermes(home, "auth", "list", "--json")
            nothing_of_a_key(home.hermes)
            reset = await run_hermes(home, "auth", "reset", "openrouter", "1")
    assert (done.stdout.strip(), again.stdout.strip(), shown(server)) == ("ok", "ok", "ABB")
    first, second, _ = json.loads(listed.stdout)
    assert (first["state"], first["reason"], second["state"], second["uses"]) == ("cooling", "auth", "ready", 2)
    assert not any(key in text for key in NAMES for text in (done.stderr, again.stderr, listed.stdout))
    assert reset.stdout == "1 cooldown ended.\n"


async def test_a_key_without_money_gives_way_to_keys_that_another_may_pay_for() -> None:
    def reply(request: RecordedRequest) -> Reply:
        poor = C not in request.headers["authorization"]
        return Fail(402, message="Insufficient credits") if poor else Say("ok")

    async with ScriptedServer(ScriptedModel(reply)) as server:
        with home_for(server) as home:
            done = await run_hermes(home, "-z", "hi")
    assert (done.stdout.strip(), shown(server)) == ("ok", "ABC")


@pytest.mark.parametrize(("payers", "seen"), [(("", "", ""), "ABC"), (("us", "us", "them"), "AC"), (("us",) * 3, "A")])
async def test_a_program_can_say_who_pays_for_a_key(payers: tuple[str, ...], seen: str) -> None:
    pool = [{"api_key": key, "organisation": name} for key, name in zip((A, B, C), payers, strict=True)]
    async with ScriptedServer(ScriptedModel(lambda _: Fail(402, message="Insufficient credits"))) as server:
        with home_for(server, keys="") as home:
            given = parse_credential_pool(pool)
            options = SessionOptions(
                cwd=str(home.cwd), credential_pool=given.more_keys, key_organisations=given.organisations
            )
            async with App(home.environ, options) as app:
                await say(app)
    assert shown(server) == seen


async def test_all_keys_refused_in_a_row_end_the_call() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Fail(429, headers={"retry-after": "0"}))) as server:
        with home_for(server, agent={"api_max_retries": 1}) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd)), clock=ManualClock(auto=True)) as app:
                await say(app)
    assert 3 <= len(server.requests) <= 12


async def test_one_key_backs_off_as_ever_and_waits_as_long_as_it_is_told() -> None:
    replies: list[Reply] = [Fail(429, headers={"retry-after": "7"}), Fail(429), Say("ok")]
    clock = ManualClock(auto=True)
    async with ScriptedServer(replies) as server:
        with home_for(server, A) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd)), clock=clock) as app:
                events = await say(app)
    assert shown(server) == "AAA"
    assert next(event.delay for event in events if isinstance(event, Retrying)) == 7.0


def test_the_home_s_keys_name_a_provider_and_an_explicit_key_wins() -> None:
    assert not is_configured(ModelChoice(), {})
    assert is_configured(ModelChoice(stored=("openai",)), {})
    found = resolve_endpoint(ModelChoice("m", stored=("openai",)), {})
    assert (found.record.name, found.api_key) == ("openai", "")
    assert resolve_endpoint(ModelChoice("m", api_key=A, stored=("openai",)), {"OPENAI_API_KEY": B}).api_key == A
    assert resolve_endpoint(ModelChoice("m", "openai"), {"OPENAI_API_KEY_2": B}).api_key == B
    with pytest.raises(ConfigError, match="hermes auth add openai"):
        resolve_endpoint(ModelChoice("m", "openai"), {})
    assert A not in repr(resolve_endpoint(ModelChoice("m", "openai", api_key=A), {})) + repr(ModelChoice(api_key=A))
    assert A not in repr(SessionOptions(api_key=A, credential_pool=(A,)))


def test_a_strategy_nobody_knows_is_a_clear_error() -> None:
    says = r"credential_pool_strategies\.openai .*Did you mean 'round_robin'"
    wrong = {"credential_pool_strategies": {"openai": "round_robbin"}}
    with TempHome(wrong) as home, pytest.raises(ConfigError, match=says):
        load_settings(HermesHome(home.hermes))


def entry(number: int, **more: str) -> AuthEntry:
    return AuthEntry(id=str(number), kind="key", label=f"l{number}", key=f"key-{number}", **more)


def test_auth_json_is_private_keeps_what_it_does_not_know_and_follows_no_link() -> None:
    with TempHome() as temp:
        home = HermesHome(temp.hermes)
        file = home.auth_file
        file.write_text('{"tokens": {"x": 1}, "keys": {"p": [{"id": "0", "kind": "key", "label": "l", "new": [1]}]}}')
        file.chmod(0o644)
        assert [one.id for one in read_entries(home)["p"]] == ["0"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        add_entry(home, "p", entry(1))
        add_entry(home, "q", entry(2))
        remove_entry(home, "q", "2")
        document = json.loads(file.read_text())
        assert (document["tokens"], document["keys"]["p"][0]["new"], "q" in document["keys"]) == ({"x": 1}, [1], False)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        target = temp.root / "elsewhere"
        file.rename(target)
        before = target.read_bytes()
        file.symlink_to(target)
        for act in (lambda: read_entries(home), lambda: add_entry(home, "p", entry(3))):
            with pytest.raises(ConfigError, match="symbolic link"):
                act()
        assert target.read_bytes() == before and file.is_symlink()
        for wrong in ("[", '{"keys": []}', '{"keys": {"p": [{}]}}'):
            file.unlink()
            file.write_text(wrong)
            with pytest.raises(ConfigError, match=r"auth\.json"):
                read_entries(home)


_ADD = """
import sys
from pathlib import Path
from hermes.config.auth_file import AuthEntry, add_entry
from hermes.config.home import HermesHome
for n in range(10):
    add_entry(HermesHome(Path(sys.argv[1])), "p", AuthEntry(id=f"{sys.argv[2]}-{n}", kind="env", label="l", name="N"))
"""


def test_writers_at_once_lose_nothing() -> None:
    with TempHome() as temp:
        command = [sys.executable, "-c", _ADD, str(temp.hermes)]
        running = [subprocess.Popen([*command, str(n)], env=temp.environ) for n in range(4)]
        assert [one.wait(60) for one in running] == [0, 0, 0, 0]
        assert len(read_entries(HermesHome(temp.hermes))["p"]) == 40


async def auth(home: TempHome, *words: str, stdin: str = "") -> ProgramResult:
    return await run_hermes(home, "auth", *words, stdin=stdin.encode())


async def test_the_verbs_from_the_command_line() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("ok"))) as server:
        model = {"default": "m", "provider": "openrouter", "base_url": server.url, "context_length": 100_000}
        with TempHome({"model": model}) as home:
            assert "There are no keys yet" in (await auth(home, "list")).stdout
            assert not (home.hermes / "hermes.db").exists()
            added = await auth(home, "add", "openrouter", "--key-stdin", "--label", "work", stdin=f"{A}\n")
            assert (added.code, added.stdout) == (0, f"Added work to openrouter, ends in {A[-4:]}.\n")
            done = await run_hermes(home, "-z", "hi")
            assert (done.stdout.strip(), done.stderr, shown(server)) == ("ok", "", "A")
            assert (
                await auth(home, "add", "openrouter", "--command", "op read x")
            ).stdout == "Added op to openrouter.\n"
            listed = await auth(home, "list")
            assert A not in listed.stdout and f"…{A[-4:]}" in listed.stdout and "command op" in listed.stdout
            removed = await auth(home, "remove", "openrouter", "work")
            assert removed.code == 0 and A not in (home.hermes / "auth.json").read_text()
            nothing_of_a_key(home.hermes)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("add", "openrouter", "KEY"), 2, "shell's history"),
        (("add", "openrouter", "--api-key", "KEY"), 2, "shell's history"),
        (("add", "openrouter", "--api-key=KEY"), 2, "shell's history"),
        (("add", "opnrouter", "--env", "X"), 2, "Did you mean 'openrouter'"),
        (("add", "openrouter", "--env", "not a name"), 2, "the name of a variable"),
        (("add", "openrouter", "--keyring", "x"), 2, "SERVICE/USER"),
        (("add", "openrouter", "--key-stdin"), 2, "No key was given"),
        (("add", "openrouter"), 2, "--key-stdin"),
        (("add", "custom", "--env", "X"), 2, "custom:HOST"),
        (("remove", "openrouter", "OPENROUTER_API_KEY"), 2, "Take it out of"),
        (("remove", "openrouter", "OPENROUTER_API_KEE"), 1, "Did you mean 'OPENROUTER_API_KEY'"),
        (("list", "--jsn"), 2, "--json"),
    ],
)
async def test_what_is_wrong_is_one_line(words: tuple[str, ...], code: int, says: str) -> None:
    typed = {"KEY": A, "--api-key=KEY": f"--api-key={A}"}
    with TempHome(more={"OPENROUTER_API_KEY": B}) as home:
        done = await auth(home, *(typed.get(word, word) for word in words))
        assert done.code == code, done.stderr
        (said,) = [line for line in done.stderr.splitlines() if not line.startswith("usage: hermes auth")]
        assert says in said
        assert A not in done.stderr + done.stdout and B not in done.stderr + done.stdout
        assert not (home.hermes / "auth.json").exists()


async def test_labels_stay_apart() -> None:
    with TempHome() as home:
        made = KeyAdmin(HermesHome(home.hermes), home.environ, None)
        for _ in range(2):
            made.add_key("kimi", AuthEntry(id="", kind="env", label="", name="X"))
        assert [row["label"] for row in await made.list_keys()] == ["X", "X-1"]
        for label in ("X", "12"):
            with pytest.raises(UsageError):
                made.add_key("moonshot", AuthEntry(id="", kind="env", label=label, name="X"))
        with pytest.raises(NotFoundError):
            await made.find_key("kimi", "3")
        made.add_key("custom:host:80", AuthEntry(id="", kind="key", label="", key=A))
        assert [row["provider"] for row in await made.list_keys()] == ["kimi", "kimi", "custom:host:80"]
