"""action.yml, run as GitHub's runner does: expressions are filled in `env`, and each `run` is a script of bash."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from msgspec import Struct

import hermes
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Fail, Reply, Say
from hermes.testing.server import ScriptedServer

pytestmark = pytest.mark.slow

ROOT = Path(hermes.__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
EXPRESSION = re.compile(r"\$\{\{ *inputs\.([\w-]+) *\}\}")


class ActionResult(Struct, frozen=True):
    """What the runner knows after the action."""

    code: int
    log: str
    outputs: dict[str, str]


async def run_action(home: TempHome, fresh: Mapping[str, str] | None = None, **given: str) -> ActionResult:
    """Run the steps of the action until one fails; with Hermes as it is here, or in a `fresh` environment."""
    inputs = {name: str(row.get("default", "")) for name, row in ACTION["inputs"].items()}
    inputs |= {name.replace("_", "-"): value for name, value in given.items()}
    if fresh is None and "hermes" not in given:
        program = home.root / "program"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hermes "$@"\n')
        program.chmod(0o755)
        inputs["hermes"] = str(program)
    written = home.root / "output"
    written.touch()
    log, code = b"", 0
    for number, step in enumerate(ACTION["runs"]["steps"]):
        filled = {name: EXPRESSION.sub(lambda one: inputs[one[1]], text) for name, text in step["env"].items()}
        script = home.root / f"step-{number}.sh"
        script.write_text(step["run"])
        environ = {**(fresh or home.environ)} | filled | {
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(written),
            "RUNNER_TEMP": str(home.root / "tmp"),
            "CUSTOM_API_KEY": "x",
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)),
            cwd=home.cwd, env=environ, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await asyncio.wait_for(process.communicate(), 120)
        log, code = log + said, process.returncode or 0
        if code:
            break
    return ActionResult(code, log.decode(), read_outputs(written.read_text()))


def read_outputs(text: str) -> dict[str, str]:
    """Read the file of outputs as the runner does: a name and a mark, then lines until the mark."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        name, _, mark = line.partition("<<")
        value: list[str] = []
        for inner in lines:
            if inner == mark:
                break
            value.append(inner)
        found[name] = "\n".join(value)
    return found


def obeyed(log: str) -> list[str]:
    """The commands of a log that the runner obeys."""
    found: list[str] = []
    until = ""
    for line in log.splitlines():
        if until and line == f"::{until}::":
            until = ""
        elif not until and (match := re.match(r"::([\w-]+).*?::(.*)", line)):
            until = match[2] if match[1] == "stop-commands" else ""
            found += [] if until else [match[1]]
    return found


async def ask(replies: list[Reply], **given: str) -> tuple[ActionResult, ScriptedServer]:
    async with ScriptedServer(replies) as server:
        with TempHome(None) as home:
            (home.cwd / "change.diff").write_text("+one line\n")
            (home.cwd / "schema.json").write_text('{"type": "object", "required": ["ok"]}')
            given = {
                "prompt": "Review this",
                "provider": "custom",
                "base_url": server.url,
                "model": "mock-model",
            } | given
            return await run_action(home, **given), server


def test_no_script_holds_an_expression() -> None:
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash" and "${{" not in step["run"]
        assert all(EXPRESSION.fullmatch(value) for value in step["env"].values())
    used = {
        one for step in ACTION["runs"]["steps"] for value in step["env"].values() for one in EXPRESSION.findall(value)
    }
    assert used == set(ACTION["inputs"])
    page = (ROOT / "docs" / "how-to" / "github-action.md").read_text("utf-8")
    assert all(f"`{name}`" in page for name in (*ACTION["inputs"], *ACTION["outputs"]))


async def test_a_task_is_answered_and_its_outputs_are_set() -> None:
    done, server = await ask([Say("Line 1\nLine 2")], input_file="change.diff")
    assert done.code == 0, done.log
    assert done.outputs["answer"] == "Line 1\nLine 2" and done.outputs["outcome"] == "text_response"
    assert Path(done.outputs["answer-file"]).name.startswith("hermes-answer-") and done.outputs["session"]
    assert set(done.outputs) == set(ACTION["outputs"])
    assert "+one line" in json.dumps(server.requests[0].json)


async def test_nothing_that_is_given_or_answered_is_run() -> None:
    evil = "$(touch pwned) `touch pwned`\"; touch pwned; echo '\n--yolo\n::add-mask::x\nanswer<<EOF\nforged\nEOF"
    async with ScriptedServer([Say(evil)]) as server:
        with TempHome(None) as home:
            given = {"provider": "custom", "base_url": server.url, "model": "mock-model", "toolsets": "file"}
            done = await run_action(home, prompt=evil, allow=evil, **given)
            assert done.code == 0, done.log
            assert not list(home.root.rglob("pwned"))
        assert json.dumps(evil.strip())[1:-1] in json.dumps(server.requests[0].json)
    assert done.outputs["answer"] == evil and obeyed(done.log) == []


async def test_a_task_that_fails_fails_the_step() -> None:
    done, _ = await ask([Fail(401, message="::error::no such key")])
    assert done.code == 1 and done.outputs["outcome"] == "provider_error" and done.outputs["answer"] == ""
    assert obeyed(done.log) == ["error"] and "no such key" in done.log
    done, _ = await ask([], max_cost="much")
    assert done.code == 2 and done.outputs["outcome"] == "not_started"
    done, _ = await ask([], prompt=" ")
    assert done.code == 2 and "`prompt` is empty" in done.log


@pytest.mark.parametrize("name", ["input_file", "working_directory", "hermes"])
async def test_what_an_input_names_and_is_not_there_is_one_line(name: str) -> None:
    done, server = await ask([], **{name: "gone\n::warning::100%"})
    assert done.code == 2 and obeyed(done.log) == ["error"] and server.requests == [], done.log
    assert "gone%0A::warning::100%25: No such file or directory" in done.log and "Traceback" not in done.log


async def test_the_agent_is_not_told_where_the_next_steps_are_set_up() -> None:
    with TempHome(None) as home:
        program = home.root / "program"
        program.write_text(f"#!/bin/sh\nenv > {home.root}/seen\necho '{{}}'\n")
        program.chmod(0o755)
        files = {name: str(home.root / name) for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
        home.more = files | {"GITHUB_SHA": "abc"}
        done = await run_action(home, home.environ, hermes=str(program), prompt="hi")
        assert done.code == 0, done.log
        seen = (home.root / "seen").read_text()
    assert "GITHUB_SHA=abc" in seen and not any(
        f"{name}=" in seen for name in (*files, "GITHUB_OUTPUT", "INPUT_PROMPT")
    )


async def test_an_answer_must_have_the_form_that_is_asked_for() -> None:
    done, _ = await ask([Say('{"ok": true}')], output_schema="schema.json")
    assert done.code == 0 and json.loads(done.outputs["structured"]) == {"ok": True}, done.log
    done, _ = await ask([Say("no"), Say("no"), Say("no")], output_schema="schema.json")
    assert done.code == 4 and done.outputs["outcome"] == "invalid_answer"


async def test_only_what_is_allowed_runs_without_a_question() -> None:
    order = Say(calls=(Call("terminal", {"command": "git push --force"}),))
    done, _ = await ask([order, Say("could not")], toolsets="terminal")
    assert done.code == 0 and obeyed(done.log) == ["warning"], done.log
    assert "git push --force" in done.log and os.linesep in done.log
