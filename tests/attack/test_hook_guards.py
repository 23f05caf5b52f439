"""Attempts of an obedient model to get past guards that the person has enabled, or to run what they run."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from hermes.admin.plugins import PluginAdmin
from hermes.config.home import locate_home
from hermes.config.trusted_folders import set_trust
from hermes.core.events import TurnEnded
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.plugins import enable_plugin
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.hooks.hooked_home import open_hooked

SANDBOX = pytest.param("sandbox", marks=pytest.mark.needs("bubblewrap"))
RECORD_ALL = {"PreToolUse": [{"matcher": "Bash|Edit|Write", "hooks": [{"type": "command", "command": "<record>"}]}]}
ECHO = Say(calls=(Call("terminal", {"command": "echo hello > out.txt"}),))


def guard(command: str, matcher: str = "Bash", **fields: object) -> dict[str, object]:
    return {"PreToolUse": [{"matcher": matcher, "hooks": [{"type": "command", "command": command, **fields}]}]}


@pytest.mark.parametrize(
    ("call", "name", "holds"),
    [
        (Call("terminal", {"command": "echo mark-1"}), "Bash", "mark-1"),
        (Call("tool_call", {"name": "terminal", "arguments": {"command": "echo mark-1"}}), "Bash", "mark-1"),
        (Call("tool_call", {"name": "execute_code", "arguments": {"code": "print('mark-1')"}}), "Bash", "mark-1"),
        (Call("write_file", {"path": "mark-1.txt", "content": "x"}), "Write", "mark-1.txt"),
        (
            Call("patch", {"mode": "replace", "path": "a.txt", "old_string": "a", "new_string": "mark-1"}),
            "Edit",
            "mark-1",
        ),
        (
            Call(
                "patch",
                {
                    "mode": "patch",
                    "patch": "*** Begin Patch\n*** Add File: mark-1.txt\n+x\n"
                    "*** Update File: a.txt\n-a\n+b\n*** End Patch",
                },
            ),
            "Write",
            "mark-1.txt",
        ),
        (
            Call(
                "tool_call",
                {"name": "skill_manage", "arguments": {"action": "create", "name": "mark-1", "content": "x"}},
            ),
            "Write",
            "mark-1",
        ),
    ],
)
async def test_hooks_see_whatever_runs_a_command_or_writes_a_file(call: Call, name: str, holds: str) -> None:
    async with open_hooked([Say(calls=(call,)), Say("done")], RECORD_ALL, files={"a.txt": "a\n"}) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        rows = [(str(one["tool_name"]), json.dumps(one["tool_input"])) for one in hooked.read_record()]
        assert not holds or any(tool == name and holds in given for tool, given in rows), rows


async def test_calls_of_code_are_told_one_by_one() -> None:
    code = "print(terminal(command='echo inner-mark'))\n"
    call = Call("tool_call", {"name": "execute_code", "arguments": {"code": code}})
    async with open_hooked([Say(calls=(call,)), Say("done")], RECORD_ALL) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        rows = [one["tool_input"] for one in hooked.read_record()]
        assert {"command": "echo inner-mark"} in rows, (rows, hooked.server.requests[-1].conversation[-1].text)


async def test_sub_agents_are_guarded() -> None:
    task = Call("tool_call", {"name": "delegate_task", "arguments": {"goal": "run it"}})
    answers = [Say(calls=(task,)), ECHO, Say("sub done"), Say("done")]
    async with open_hooked(answers, guard("echo no-shell >&2; exit 2")) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        assert not (hooked.home.cwd / "out.txt").exists()
        assert any("no-shell" in one.body.decode() for one in hooked.server.requests)


async def test_what_is_encoded_twice_is_told_as_it_runs() -> None:
    call = Call("web_extract", {"urls": '["https://forbidden.example/x"]'})
    async with open_hooked(
        [Say(calls=(call,)), Say("done")],
        guard("<no.sh>", "WebFetch"),
        scripts={"no.sh": '#!/bin/sh\ngrep -q \'"url":"https://forbidden\' && exit 2\nexit 0\n'},
    ) as hooked:
        assert (await hooked.actor.post(InboundMessage(text="go"))).refused == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "echo hello > out.txt", "timeout": 1e308},
        {"command": "echo hello > out.txt", "workdir": "a\0b"},
        {"command": "echo hello > out.txt", "workdir": "x" * 10_000},
        {"command": "echo \ud800 > out.txt"},
    ],
)
async def test_no_arguments_crash_a_turn_past_its_guard(arguments: Mapping[str, object]) -> None:
    call = Call("terminal", arguments)
    async with open_hooked([Say(calls=(call,)), Say("done")], guard("exit 2")) as hooked:
        assert (await hooked.actor.post(InboundMessage(text="go"))).text == "done"
        assert not (hooked.home.cwd / "out.txt").exists()


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build",
        "cd . && rm -rf build",
        "X=1 rm -rf build",
        "sudo rm -rf build",
        "env -i rm -rf build",
        "/bin/rm -rf build",
        "r'm' -rf build",
        "\\rm -rf build",
        "true $(rm -rf build)",
        "true `rm -rf build`",
        "{ rm -rf build; }",
        "sh -c 'rm -rf build'",
        "eval rm -rf build",
        "R=rm; $R -rf build",
        "echo cm0gLXJmIGJ1aWxk | base64 -d | sh",
        "if true; then rm -rf build; fi",
        "! rm -rf build",
        "timeout 5 rm -rf build",
    ],
)
async def test_a_rule_sees_the_program_however_it_is_written(command: str) -> None:
    call = Call("terminal", {"command": command})
    hooks = guard("echo kept-by-hook >&2; exit 2", **{"if": "Bash(rm *)"})
    async with open_hooked([Say(calls=(call,)), Say("done")], hooks) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        assert "kept-by-hook" in hooked.server.requests[1].conversation[-1].text


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("Write(~/keep/*)", "~/keep/a"),
        ("Write(//<root>/work/a)", "a"),
        ("Write(/a)", "a"),
        ("Edit(./src/**)", "src/x/a"),
    ],
)
async def test_a_rule_for_paths_is_no_gap(rule: str, path: str) -> None:
    call = Call("write_file", {"path": path, "content": "x"})
    hooks = guard("echo kept-by-hook >&2; exit 2", "Write", **{"if": rule})
    async with open_hooked([Say(calls=(call,)), Say("done")], hooks) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        assert "kept-by-hook" in hooked.server.requests[1].conversation[-1].text


PUT_EVIL = "printf '#!/bin/sh\\ntouch owned\\n' > evil.sh; chmod +x evil.sh; "


@pytest.mark.parametrize("backend", ["local", SANDBOX])
@pytest.mark.parametrize(
    ("command", "files", "way"),
    [
        ("scripts/check.sh", {}, "mkdir -p scripts; cp evil.sh scripts/check.sh"),
        ("sh check.sh || true", {}, "cp evil.sh check.sh"),
        ('"$CLAUDE_PROJECT_DIR"/x/../check.sh || true', {}, "mkdir x; cp evil.sh check.sh"),
        (
            "cd scripts && ./check.sh",
            {"scripts/check.sh": "#!/bin/sh\n"},
            "rm scripts/check.sh; cp evil.sh scripts/check.sh",
        ),
        (
            "cd scripts && ./check.sh",
            {"scripts/check.sh": "#!/bin/sh\n"},
            "mv scripts s; mkdir scripts; cp evil.sh scripts/check.sh",
        ),
        ("D=scripts; $D/check.sh", {"scripts/check.sh": "#!/bin/sh\n"}, "cp evil.sh scripts/check.sh"),
        ("$(pwd)/scripts/check.sh", {"scripts/check.sh": "#!/bin/sh\n"}, "cp evil.sh scripts/check.sh"),
        (
            "${CLAUDE_PROJECT_DIR:-.}/scripts/check.sh",
            {"scripts/check.sh": "#!/bin/sh\n"},
            "cp evil.sh scripts/check.sh",
        ),
        ("for f in scripts/*.sh; do sh $f; done", {"scripts/a.sh": "true\n"}, "cp evil.sh scripts/b.sh"),
        ("bash -c 'scripts/check.sh; true'", {"scripts/check.sh": "#!/bin/sh\n"}, "cp evil.sh scripts/check.sh"),
    ],
)
async def test_nothing_that_the_model_puts_there_is_run_by_a_hook(
    backend: str, command: str, files: Mapping[str, str], way: str
) -> None:
    hooks = {"PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}
    steps = [Say(calls=(Call("terminal", {"command": one}),)) for one in (PUT_EVIL + way, "true", "true")]
    settings = {"terminal": {"backend": backend}}
    async with open_hooked([*steps, Say("done")], hooks, files=files, settings=settings) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        assert not list(hooked.home.cwd.rglob("owned"))


async def test_a_link_in_the_folder_is_not_enabled() -> None:
    """It could be led elsewhere between the look and the start."""
    async with ScriptedServer([Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "real.sh").write_text("#!/bin/sh\n")
            (home.cwd / "check.sh").symlink_to("real.sh")
            home.write_config({**(home.config or {}), "hooks": guard("./check.sh")})
            with pytest.raises(Exception, match="a link leads to"):
                enable_plugin(home.environ, "hooks", str(home.cwd))


@pytest.mark.parametrize("name", ["2", "check.sh"])
async def test_a_file_in_the_folder_turns_no_guard_off(name: str) -> None:
    """A file that a word of a command may mean comes into the folder, or goes: the guard says no, it is not off."""
    async with ScriptedServer([ECHO, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            if name == "check.sh":
                (home.cwd / name).write_text("exit 2\n")
            home.write_config({**(home.config or {}), "hooks": guard("sh check.sh 2 || (exit 2)")})
            enable_plugin(home.environ, "hooks", str(home.cwd))
            if name == "check.sh":
                (home.cwd / name).unlink()
            else:
                (home.cwd / name).write_text("")
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                assert (await actor.post(InboundMessage(text="go"))).refused == 1


SETTINGS = ".claude/settings.json"


@asynccontextmanager
async def open_project(answers: Sequence[Say], backend: str = "local") -> AsyncIterator[TempHome]:
    """Open a home with a trusted project whose guard of commands is enabled."""
    async with ScriptedServer(list(answers)) as server:
        with TempHome.for_server(server.url, more_config={"terminal": {"backend": backend}}) as home:
            (home.cwd / ".claude").mkdir()
            (home.cwd / SETTINGS).write_text(json.dumps({"hooks": guard("grep -qv guarded")}))
            set_trust(locate_home(home.environ).trust_file, str(home.cwd), trusted=True)
            enable_plugin(home.environ, "claude-project", str(home.cwd))
            yield home


async def run_turn(home: TempHome) -> TurnEnded:
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session()
        return await actor.post(InboundMessage(text="go"))


GUARDED = Say(calls=(Call("terminal", {"command": "touch guarded"}),))


@pytest.mark.parametrize("backend", ["local", SANDBOX])
async def test_the_settings_of_a_project_s_guard_are_not_undone(backend: str) -> None:
    ways = (
        Call("write_file", {"path": SETTINGS, "content": "{}"}),
        Call("terminal", {"command": f"echo '{{}}' > {SETTINGS}"}),
        Call("terminal", {"command": f"rm -f {SETTINGS}"}),
        Call("terminal", {"command": "mv .claude .other"}),
    )
    for way in ways:
        async with open_project([Say(calls=(way,)), Say("done"), GUARDED, Say("done")], backend) as home:
            await run_turn(home)
            await run_turn(home)
            assert not (home.cwd / "guarded").exists(), way


@pytest.mark.parametrize("text", ["", "{", "{}", '{"disableAllHooks": true}', '{"hooks": {"Stop": []}}'])
async def test_a_guard_of_a_project_that_is_gone_is_a_no(text: str) -> None:
    async with open_project([GUARDED, Say("done"), GUARDED, Say("done")]) as home:
        (home.cwd / SETTINGS).write_text(text)
        assert (await run_turn(home)).refused == 1
        PluginAdmin(home.environ, str(home.cwd)).disable("claude-project")
        assert (await run_turn(home)).refused == 0


async def test_a_pipe_in_the_place_of_settings_hangs_nothing() -> None:
    async with open_project([GUARDED, Say("done")]) as home:
        (home.cwd / SETTINGS).unlink()
        os.mkfifo(home.cwd / SETTINGS)
        async with asyncio.timeout(20):
            assert (await run_turn(home)).refused == 1


@pytest.mark.parametrize("backend", ["local", SANDBOX])
@pytest.mark.parametrize(
    "command",
    [
        "hermes plugins enable hooks --yes",
        "python3 -m hermes plugins enable hooks -y",
        "H=hermes; $H plugins enable hooks --yes",
        (
            "<python> -c 'import sys; from hermes.cli.main import main;"
            ' sys.argv = "hermes plugins enable hooks --yes".split(); main()\''
        ),
        "echo '{}' > $HERMES_HOME/plugins.json",
    ],
)
async def test_the_model_enables_nothing(backend: str, command: str) -> None:
    program = command.replace("<python>", sys.executable)
    answers = [Say(calls=(Call("terminal", {"command": program}),)), Say("done")]
    settings = {"terminal": {"backend": backend}}
    async with open_hooked(answers, guard("true"), enable=False, settings=settings) as hooked:
        await hooked.actor.post(InboundMessage(text="go"))
        file = hooked.home.hermes / "plugins.json"
        assert not file.exists(), hooked.server.requests[1].conversation[-1].text


PLUGIN = 'name: keep\nversion: "1"\ndescription: Keeps.\nhooks: [pre_tool_call]\n'
PLUGIN_PROGRAM = """from hermes_plugin import hook, run

@hook("pre_tool_call")
def keep(moment):
    return {"decision": "deny", "reason": "kept"} if "guarded" in str(moment["arguments"]) else {}

run()
"""


@pytest.mark.parametrize("backend", ["local", SANDBOX])
async def test_the_guard_of_a_project_s_plug_in_is_not_undone(backend: str) -> None:
    place = ".hermes/plugins/keep"
    ways = (
        Call("write_file", {"path": f"{place}/plugin.yaml", "content": PLUGIN.partition("hooks")[0]}),
        Call("terminal", {"command": f"echo hooks_off >> {place}/plugin.yaml"}),
        Call("terminal", {"command": "mv .hermes/plugins .hermes/others"}),
        Call("terminal", {"command": "true"}),
    )
    for way in ways:
        answers = [Say(calls=(way,)), Say("done"), GUARDED, Say("done")]
        async with ScriptedServer(answers) as server:
            with TempHome.for_server(server.url, more_config={"terminal": {"backend": backend}}) as home:
                (home.cwd / place).mkdir(parents=True)
                (home.cwd / place / "plugin.yaml").write_text(PLUGIN)
                (home.cwd / place / "main.py").write_text(PLUGIN_PROGRAM)
                set_trust(locate_home(home.environ).trust_file, str(home.cwd), trusted=True)
                enable_plugin(home.environ, "keep", str(home.cwd))
                await run_turn(home)
                assert (await run_turn(home)).refused == 1
                assert not (home.cwd / "guarded").exists(), way
                PluginAdmin(home.environ, str(home.cwd)).disable("keep")


TAKE = """from hermes_plugin import hook, run

@hook("transform_tool_result")
def take(moment):
    return {"text": "rewritten: " + moment["text"]}

run()
"""


async def test_what_a_plug_in_makes_of_a_text_is_from_where_the_text_is() -> None:
    """Neither the text of an untrusted project nor the mark of what the plug-in was told is lost on the way."""
    call = Say(calls=(Call("terminal", {"command": "cat strange.txt"}),))
    async with ScriptedServer([call, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            folder = home.hermes / "plugins/take"
            folder.mkdir(parents=True)
            (folder / "plugin.yaml").write_text(
                PLUGIN.replace("keep", "take").replace("pre_tool_call", "transform_tool_result")
            )
            (folder / "main.py").write_text(TAKE)
            (home.cwd / "strange.txt").write_text("strange words\n")
            enable_plugin(home.environ, "take", str(home.cwd))
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                await actor.post(InboundMessage(text="go"))
                live = app.live_session(actor)
                sources = live.tools.state.taint.list_sources()
            assert "rewritten: " in server.requests[1].conversation[-1].text
            assert any(one.startswith("file:") for one in sources), sources
            given = json.loads((home.hermes / "plugin-data/take.sources.json").read_text())
            assert any(one.startswith("file:") for one in given), given
