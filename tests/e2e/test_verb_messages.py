"""What the administration verbs say when there is little to say, or something is wrong."""

import pytest

from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes

EMPTY = {
    "approvals": "No question waits for an answer.",
    "trust --list": "No folder is trusted yet. `hermes trust FOLDER` trusts one.",
    "mcp": "There are no MCP servers. `hermes mcp add` adds one.",
    "auth list": "There are no keys yet.",
}


async def hermes(home: TempHome, *arguments: str) -> ProgramResult:
    return await run_hermes(home, *arguments)


@pytest.mark.parametrize("verb", EMPTY)
async def test_an_empty_list_says_so(verb: str) -> None:
    with TempHome({}) as home:
        done = await hermes(home, *verb.split())
        assert (done.code, done.stderr) == (0, "") and done.stdout.startswith(EMPTY[verb]), done
        if verb in ("approvals", "mcp"):
            assert (await hermes(home, *verb.split(), "--json")).stdout == ""


async def test_trust_of_what_is_no_folder_is_a_plain_sentence() -> None:
    with TempHome({}) as home:
        done = await hermes(home, "trust", "/nonexistent")
        assert (done.code, done.stderr) == (2, "hermes: /nonexistent is not a folder. Name the project's folder.\n")
        assert not (home.hermes / "trust.json").exists()


@pytest.mark.parametrize(
    "config",
    [{"approvals": {"mode": "off"}}, {"approvals": {"mode": "maybe"}}, {"terminal": {"backend": "nowhere"}}],
)
async def test_the_doctor_runs_whatever_the_settings_say(config: dict[str, object]) -> None:
    with TempHome(config) as home:
        done = await hermes(home, "doctor")
        assert done.code == 1 and done.stderr == ""
        lines = done.stdout.splitlines()
        assert sum(line.startswith("Problem: ") for line in lines) == 1
        assert any(line.startswith("Home: ") for line in lines) and any(line.startswith("Folder: ") for line in lines)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"comand": "x"}, "unknown setting `mcp_servers.notes.comand`. Did you mean 'command'?"),
        (
            {"command": "x", "tools": {"exlude": ["a"]}},
            "unknown setting `mcp_servers.notes.tools.exlude`. Did you mean 'exclude'?",
        ),
        ({"command": "x", "zzz": 1}, "unknown setting `mcp_servers.notes.zzz`. It may have: command, args, env"),
    ],
)
async def test_a_mistyped_key_of_a_server_is_refused(server: dict[str, object], said: str) -> None:
    with TempHome({"mcp_servers": {"notes": server}}) as home:
        done = await hermes(home, "mcp")
        assert done.code == 78 and said in done.stderr


@pytest.mark.parametrize(
    ("folder", "why"),
    [("/", "it is the system's"), ("/etc/ssl", "it is the system's"), ("~", "it is your home as a whole")],
)
async def test_too_much_is_not_trusted_by_the_way(folder: str, why: str) -> None:
    with TempHome({}) as home:
        done = await hermes(home, "trust", folder)
        assert done.code == 2 and why in done.stderr and not (home.hermes / "trust.json").exists()
        assert ("--all-of-it" in done.stderr) == (folder == "~")
        done = await hermes(home, "trust", folder, "--all-of-it")
        assert (done.code == 0) == (folder == "~"), done


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"mode": "off", "off_in": "sandbx"},
            "Problem: approvals.off_in: no back end is called 'sandbx'. Did you mean",
        ),
        ({"mode": "off", "off_in": "local"}, "Questions: mode off in local (commands run elsewhere, so questions are"),
    ],
)
async def test_the_doctor_says_what_off_in_comes_to(config: dict[str, object], said: str) -> None:
    with TempHome({"approvals": config, "terminal": {"backend": "local"}}) as home:
        assert said in (await hermes(home, "doctor")).stdout


async def test_what_is_wrong_is_said_in_whole_sentences() -> None:
    with TempHome({}) as home:
        done = await hermes(home, "trust", "a", "b")
        said = "hermes: Unexpected argument 'b'. `hermes trust --help` shows what there is."
        assert done.stderr.splitlines()[1:] == [said]
        done = await hermes(home, "approvals", "approve", "approval_x")
        assert "No question of this id waits for an answer." in done.stderr


async def test_a_mistyped_command_is_never_led_to_the_one_that_asks_nothing() -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("x"))) as server:
        with TempHome.for_server(server.url) as home:
            typed = b"/foo\n/yoloo\n/sesion\n/stop 5\n/yol\n/whoa\n/statu\n?\n/quit\n"
            done = await run_hermes(home, stdin=typed)
            first, second, third, fourth, fifth, sixth, seventh, *rest = done.stdout.splitlines()
    assert server.requests == []
    assert first == "There is no command /foo. A space in front sends it as a message."
    assert "Did you mean /yolo?" in second and "Did you mean /session" in third
    assert fourth == "/stop takes nothing, or the word `all`."
    assert "Did you mean /yolo?" in fifth and "you may use every command" in sixth
    assert "Which one: /status, /statusbar?" in seventh
    assert "Conversation" in rest and any("/whoami" in line for line in rest)
