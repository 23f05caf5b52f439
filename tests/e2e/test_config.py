"""`hermes config` and `hermes tools` as programs: settings are looked at and changed, and nothing else is."""

import json
import secrets
import stat
import sys

import pytest
import yaml

from hermes.admin.config import get_setting, set_setting, unset_setting
from hermes.cli.render.theme import SKINS
from hermes.config.display import BUILTIN_SKINS
from hermes.config.home import HermesHome
from hermes.config.keys import iter_settings
from hermes.config.load import load_settings
from hermes.core.errors import UsageError
from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.e2e.screen import on_a_terminal
from tests.forked_hermes import run_hermes


async def hermes(home: TempHome, *arguments: str, stdin: bytes = b"") -> ProgramResult:
    return await run_hermes(home, *arguments, stdin=stdin)


def editor(home: TempHome, *edits: str) -> None:
    """An EDITOR that writes one text after the other, at each start the next."""
    script = home.root / "editor.py"
    script.write_text(
        "import pathlib, sys\n"
        f"texts = {list(edits)!r}\ncount = pathlib.Path({str(home.root / 'count')!r})\n"
        "n = int(count.read_text()) if count.exists() else 0\ncount.write_text(str(n + 1))\n"
        "pathlib.Path(sys.argv[1]).write_text(texts[min(n, len(texts) - 1)])\n"
    )
    home.more["EDITOR"] = f"{sys.executable} {script}"


ALL_SETTINGS = "`hermes config list --all` shows those there are."
ROUND = {
    "agent.max_turns": ("40", 40),
    "fallback_providers": ("[openrouter/auto, {provider: ollama, model: 'a:b'}]", None),
    "auxiliary.compression.model": ("small", "small"),
    "compression.threshold": ("0.7", 0.7),
    "context.engine": ("compressor", "compressor"),
    "prompt_caching.cache_ttl": ("1h", "1h"),
    "command_allowlist": ("['git status', 'make *']", ["git status", "make *"]),
    "terminal.sandbox.network": ("off", "off"),
    "memory.enabled": ("no", False),
    "prices": ("{my-model: {input: 3, output: 15}}", None),
    "delegation.max_iterations": ("5", 5),
    "model": ("some/model:free", None),
}


async def test_each_key_that_guides_name_goes_in_and_comes_out() -> None:
    with TempHome() as home:
        file = home.hermes / "config.yaml"
        file.write_text("# top\nagent:\n  max_turns: 3  # few\n\n# end\n")
        done = await hermes(home, "config", "set", "agent.max_turns", "40")
        assert (done.code, done.stdout) == (0, f"agent.max_turns is 40 now, in {file}.\n")
        assert (await hermes(home, "config", "get", "agent.max_turns")).stdout == "40\n"
        for key, (text, value) in ROUND.items():
            set_setting(home.environ, key, text)
            got = get_setting(home.environ, key)
            assert got["source"] == "config.yaml"
            assert value is None or got["value"] == value
        after = file.read_text()
        assert after.startswith("# top\nagent:\n  max_turns: 40  # few\n\n# end\n")
        assert yaml.safe_load(after)["model"] == {"default": "some/model:free"}
        assert (await hermes(home, "config", "unset", "agent.max_turns")).stdout == "Took `agent.max_turns` out.\n"
        for key in ROUND:
            assert unset_setting(home.environ, key) is (key != "agent.max_turns")
        assert yaml.safe_load(file.read_text()) is None


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("agent.max_turns", "many", "must be a whole number, not many"),
        ("agent.max_turns", "0", "must be above zero"),
        ("agnt.max_turns", "3", "Did you mean 'agent.max_turns'?"),
        ("max_turns", "3", "Did you mean 'agent.max_turns'?"),
        ("memory.memory_char_limit", "-1", "1 or more, not -1"),
        ("memory.nudge_interval", "-1", "0 or more"),
        ("terminal.ssh.port", "70000", "from 0 to 65535"),
        ("terminal.docker.pids", "0", "1 or more"),
        ("skills.evolution", "sometimes", "one of: off, ask, automatic, not sometimes"),
        ("approvals.mode", "never", "ask, smart or off"),
        ("approvals.mode", "off", "approvals.off_in"),
        ("terminal.backend", "vm", "auto, sandbox, local, docker, ssh"),
        ("model.reasoning_replay", "Always!", "it can be auto, on, off, or the name of a field"),
        ("model.provider", "openruter", "Did you mean 'openrouter'?"),
        ("toolsets", "[fil]", "Did you mean 'file'?"),
        ("disabled_toolsets", "[web_search]", "its set is `web`"),
        ("toolsets", "[computer_use]", "computer_use holds no tools in this version"),
        ("toolsets", "[a", "cannot be read"),
        ("toolsets", "file", "a list, such as [a, b]"),
        ("spending.day.usd", "-1", "from zero on"),
        ("spendng.day.usd", "1", "Did you mean 'spending.day.usd'?"),
        ("TERMINAL_ENV", "docker", "Use `terminal.backend`"),
        ("model.default.x", "1", "Unknown setting"),
        ("", "1", "is not a key"),
    ],
)
def test_what_cannot_be_is_refused_in_words(key: str, value: str, said: str) -> None:
    with TempHome({"agent": {"max_turns": 5}}) as home:
        before = (home.hermes / "config.yaml").read_bytes()
        with pytest.raises(UsageError) as caught:
            set_setting(home.environ, key, value)
        assert said in str(caught.value)
        assert (home.hermes / "config.yaml").read_bytes() == before


async def test_a_refusal_is_one_line_and_exit_code_2() -> None:
    with TempHome() as home:
        done = await hermes(home, "config", "set", "agnt.max_turns", "3")
        assert (done.code, done.stdout) == (2, "")
        assert (
            done.stderr == f"hermes: Unknown setting `agnt.max_turns`. Did you mean 'agent.max_turns'? {ALL_SETTINGS}\n"
        )


async def test_keys_are_never_shown_and_not_taken_from_the_command_line() -> None:
    key = "sk-" + secrets.token_hex(20)
    config = {
        "model": {"default": "m", "base_url": f"http://u:{key}@127.0.0.1:9/v1", "api_key": key},
        "mcp_servers": {"a": {"command": "x", "env": {"A_TOKEN": key}}},
        "fallback_providers": [{"model": "b", "provider": "ollama", "api_key": key}],
    }
    with TempHome(config) as home:
        said = ""
        for arguments in (
            ("get", "model.api_key"),
            ("get", "model"),
            ("get", "model", "--json"),
            ("get", "mcp_servers"),
            ("list", "--all"),
            ("list", "--json"),
            ("check",),
            ("check", "--json"),
        ):
            done = await hermes(home, "config", *arguments)
            said += done.stdout + done.stderr
        assert "(set; not shown)" in said and key not in said and key[-8:] not in said
        done = await hermes(home, "config", "set", "model.api_key", "sk-" + secrets.token_hex(20))
        assert done.code == 2 and "history" in done.stderr and "sk-" not in done.stderr
        assert (await hermes(home, "config", "set", "model.api_key", "${MY_KEY}")).code == 0
        assert (await hermes(home, "config", "get", "model.api_key")).stdout == "${MY_KEY}\n"


async def test_check_says_everything_with_its_line() -> None:
    text = (
        "model:\n  default: m\n  provider: ollama\nagent:\n  max_turns: many\n  max_trns: 3\nkanban: {}\n"
        "memory:\n  memory_char_limit: -3\nnonsense: 1\n"
    )
    with TempHome(more={"TERMINAL_ENV": "docker", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}) as home:
        file = home.hermes / "config.yaml"
        file.write_text(text)
        (home.hermes / ".env").write_text("TERMINAL_ENV=local\n")
        done = await hermes(home, "config", "check")
        assert done.code == 78
        lines = done.stdout.splitlines()
        for said in (
            f"{file}:5: error: `agent.max_turns` must be a whole number, not many.",
            f"{file}:6: warning: Unknown setting `agent.max_trns`. Did you mean 'max_turns'?",
            f"{file}:7: note: This version does not act on `kanban`.",
            f"{file}:9: error: `memory.memory_char_limit` must be a whole number, 1 or more, not -3.",
            f"{file}:10: warning: Unknown setting `nonsense`.",
        ):
            assert said in lines, (said, lines)
        assert any("TERMINAL_ENV is set: it goes before config.yaml" in line for line in lines)
        assert any("TERMINAL_ENV of .env is overridden" in line for line in lines)
        assert any("OPENAI_BASE_URL is set" in line for line in lines)
        rows = json.loads((await hermes(home, "config", "check", "--json")).stdout)
        assert {row["level"] for row in rows} == {"error", "warning", "note"}
        file.write_text("a: [\n")
        broken = await hermes(home, "config", "check")
        assert broken.code == 78 and f"{file}:2: error" in broken.stdout
        file.write_text("model: {default: m, provider: ollama}\n")
        del home.more["OPENAI_BASE_URL"]
        fine = await hermes(home, "config", "check")
        assert fine.code == 0 and "can be used" in fine.stdout
        file.write_text("model: {default: m, provider: ollama}\nmemory:\n  user_char_limit: -1\n")
        wrong = await hermes(home, "-z", "hi")
        assert wrong.code == 78 and f"{file}, line 3: `memory.user_char_limit` must be" in wrong.stderr


async def test_an_edited_file_is_kept_once_it_can_be_used() -> None:
    with TempHome({"agent": {"max_turns": 5}}) as home:
        file = home.hermes / "config.yaml"
        before = file.read_bytes()
        editor(home, "agent: {max_turns: x}\n")
        done = await hermes(home, "config", "edit")
        assert done.code == 78 and "must be a whole number" in done.stderr
        assert file.read_bytes() == before and [one.name for one in home.hermes.iterdir()] == ["config.yaml"]
        (home.root / "count").unlink()
        editor(home, "agent: {max_turns: x}\n", "model: {default: m, provider: ollama}\nagent: {max_turns: 6} # six\n")
        async with on_a_terminal(home, "config", "edit") as screen:
            await screen.shows_next("Go on editing? [Y/n]")
            screen.type("\n")
            await screen.shows_next("Wrote")
            assert await screen.end() == 0
        assert file.read_text().endswith("# six\n")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        home.more["EDITOR"] = "no-such-editor-anywhere"
        assert (await hermes(home, "config", "edit")).code == 2


async def test_looking_makes_nothing() -> None:
    with TempHome() as home:
        for arguments in (["config", "list"], ["config", "check"], ["config", "path"], ["tools"], ["model"]):
            done = await hermes(home, *arguments)
            assert done.stderr == "" and done.code == 0, done
        rows = json.loads((await hermes(home, "config", "list", "--json")).stdout)
        assert [row["key"] for row in rows] == [setting.key for setting in iter_settings()]
        assert list(home.hermes.iterdir()) == []


async def test_a_home_that_another_program_uses_is_not_written_before_that_is_agreed() -> None:
    with TempHome() as home:
        (home.hermes / "state.db").write_bytes(b"")
        for arguments in (
            ["config", "set", "agent.max_turns", "3"],
            ["tools", "disable", "web"],
            ["model", "m", "--provider", "ollama"],
        ):
            done = await hermes(home, *arguments)
            assert done.code == 78 and "another program's home" in done.stderr, done
        assert [one.name for one in home.hermes.iterdir()] == ["state.db"]


async def test_a_set_that_is_switched_off_is_gone_from_the_next_request() -> None:
    async with ScriptedServer([Say("a"), Say("b"), Say("c"), Say("d")]) as server:
        with TempHome.for_server(server.url) as home:
            await hermes(home, "-z", "hi")
            done = await hermes(home, "tools", "disable", "web", "todo")
            assert done.code == 0 and "web is off" in done.stdout
            await hermes(home, "-z", "hi")
            await hermes(home, "tools", "enable", "todo", "debugging")
            await hermes(home, "-z", "hi")
            offered = [
                {tool["function"]["name"] for tool in request.json.get("tools", [])} for request in server.requests
            ]
            assert {"web_search", "web_extract", "todo"} <= offered[0]
            assert not {"web_search", "web_extract", "todo"} & offered[1]
            assert offered[0] - offered[1] == {"web_search", "web_extract", "todo"}
            assert "todo" in offered[2] and "web_search" not in offered[2]
            rows = json.loads((await hermes(home, "tools", "list", "--json")).stdout)
            standing = {row["name"]: (row["on"], row["why"]) for row in rows}
            assert standing["web"] == (False, "`disabled_toolsets` names it")
            assert standing["todo"][0] and standing["debugging"][0]
            wrong = await hermes(home, "tools", "disable", "wbe")
            assert wrong.code == 2 and "Did you mean 'web'?" in wrong.stderr
            names = [row["name"] for row in rows if row["on"]]
            assert (await hermes(home, "tools", "disable", *names)).code == 0
            none = await hermes(home, "-z", "hi")
            assert none.code == 0 and "tools" not in server.requests[-1].json, none


def test_every_key_has_a_default_and_words() -> None:
    from hermes.config.keys import describe_type, find_setting

    for setting in iter_settings():
        assert find_setting(setting.key) == setting
        assert describe_type(setting.typed)


async def test_variables_that_stand_for_settings_go_before_the_file_and_are_said() -> None:
    async with ScriptedServer([Say("Done.")]) as server:
        with TempHome.for_server(server.url) as home:
            home.more["HERMES_MODEL"] = "other-model"
            done = await hermes(home, "-z", "Hello.")
            assert "HERMES_MODEL=other-model replaces `model.default: mock-model` of config.yaml." in done.stderr
            assert server.requests[0].json["model"] == "other-model"


async def test_a_broken_file_is_refused_with_two_ways_on_that_work() -> None:
    async with ScriptedServer([Say("Done.")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.hermes / "config.yaml").write_text("model: [oops\n")
            done = await hermes(home, "-z", "Hello.")
            assert done.code == 78 and "`hermes config edit`" in done.stderr and "`--ignore-user-config`" in done.stderr
            given = ("--base-url", server.url, "--model", "m")
            assert (await hermes(home, "--ignore-user-config", "-z", "Hello.", *given)).stdout == "Done.\n"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TERMINAL_ENV", "modal", "modal comes later"),
        ("TERMINAL_ENV", "vm", "no terminal back end"),
        ("TERMINAL_ENV", "vm", "The variable TERMINAL_ENV=vm goes before the file."),
        ("TERMINAL_ENV", "docker", "The variable TERMINAL_ENV=docker goes before the file."),
        ("TERMINAL_TIMEOUT", "soon", "TERMINAL_TIMEOUT=soon cannot be used"),
        ("TERMINAL_TIMEOUT", "soon", "Change the variable TERMINAL_TIMEOUT, or unset it."),
        ("TERMINAL_TIMEOUT", "9" * 5_000, "cannot be used"),
        ("HERMES_MAX_ITERATIONS", "0", "HERMES_MAX_ITERATIONS=0 cannot be used"),
        ("HERMES_INFERENCE_PROVIDER", "openruter", "openruter"),
    ],
)
async def test_a_variable_that_cannot_be_is_refused_in_one_line(name: str, value: str, said: str) -> None:
    async with ScriptedServer([Say("Done.")]) as server:
        with TempHome.for_server(server.url) as home:
            home.more[name] = value
            done = await hermes(home, "-z", "Hello.")
    assert done.code != 0 and said in done.stderr and "Traceback" not in done.stderr
    assert server.requests == []


async def test_a_variable_of_the_homes_own_file_chooses_where_commands_run() -> None:
    with TempHome({"terminal": {"backend": "sandbox"}}) as home:
        (home.hermes / ".env").write_text("TERMINAL_ENV=local\n")
        done = await hermes(home, "doctor")
        assert "TERMINAL_ENV=local replaces `terminal.backend: sandbox` of config.yaml." in done.stdout


@pytest.mark.parametrize(("chosen", "is_kept"), [("openrouter", False), ("anthropic", True)])
async def test_a_provider_that_a_variable_names_is_not_sent_the_key_of_the_configured_one(
    chosen: str, is_kept: bool
) -> None:
    model = {"provider": "anthropic", "api_key": "k" * 20, "base_url": "http://127.0.0.1:1", "default": "m"}
    with TempHome({"model": model}) as home:
        variables = {"HERMES_INFERENCE_PROVIDER": chosen}
        found = load_settings(HermesHome(home.hermes, setting_variables=variables)).settings.model
    assert (found.provider, found.default) == (chosen, "m")
    assert (bool(found.api_key), bool(found.base_url)) == (is_kept, is_kept)


async def test_a_model_may_be_called_by_a_number() -> None:
    with TempHome({"model": "m"}) as home:
        found = load_settings(HermesHome(home.hermes, setting_variables={"HERMES_MODEL": "123"})).settings.model
    assert found.default == "123"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("modle.x", "1", "Did you mean 'model'?"),
        ("dispaly.skin", "light", "Did you mean 'display.skin'?"),
        ("agent.maxturns", "3", "Did you mean 'agent.max_turns'?"),
        ("display.skin", "nonsense", "`display.skin` must be one of: default, light"),
        ("display.language", "fr", "must be one of: auto, en, zh"),
        ("web.search_backend", "gogle", "must be one of: "),
    ],
)
async def test_a_mistyped_setting_or_value_is_told_and_nothing_is_written(key: str, value: str, says: str) -> None:
    with TempHome({"agent": {"max_turns": 40}}) as home:
        before = (home.hermes / "config.yaml").read_bytes()
        done = await run_hermes(home, "config", "set", key, value)
        assert (done.code, says in done.stderr) == (2, True), done
        assert (home.hermes / "config.yaml").read_bytes() == before


async def test_a_value_that_would_be_ignored_is_a_warning_of_the_check() -> None:
    with TempHome({"display": {"skin": "nonsense"}}) as home:
        done = await run_hermes(home, "config", "check")
    assert done.code == 0
    assert "config.yaml:2: warning: `display.skin` must be one of" in done.stdout


def test_the_skins_that_settings_know_are_those_that_there_are() -> None:
    assert set(BUILTIN_SKINS) == set(SKINS)


async def test_an_unknown_setting_leads_to_the_list_of_all() -> None:
    with TempHome({}) as home:
        for name in ("zzz", "agent.max_truns"):
            done = await hermes(home, "config", "set", name, "3")
            assert done.code == 2 and ALL_SETTINGS in done.stderr
        assert "Did you mean 'agent.max_turns'?" in done.stderr
        assert not (home.hermes / "config.yaml").read_text().strip(" {}\n")
