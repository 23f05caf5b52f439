"""What a command sends and what it brings: which of it asks in `local`, and by whose name its text is strange."""

import json
import subprocess

import pytest

from hermes.tools.permissions.gate import PermissionDecision
from hermes.tools.permissions.policy_gate import PolicyGate
from tests.attack.obedient_scene import NO, ONCE, Scene, says, scene


def decided(one: Scene, command: str) -> PermissionDecision:
    """What the session's gate says to a command, which is not run."""
    tools = one.app._live[one.actor.session_id][0].tools
    tool = tools.toolbox.find("terminal")
    assert tool is not None and isinstance(tools.gate, PolicyGate)
    return tools.gate.decide_call(tool, tool.parameters.decode(json.dumps({"command": command})), tools.context)


def sources(one: Scene) -> list[str]:
    return list(one.context.state.taint.list_sources())


@pytest.mark.needs("git")
async def test_a_local_repository_is_no_host_of_the_web() -> None:
    async with scene("local", trusted=True) as one:
        made = one.home.cwd / "sub/theirs"
        subprocess.run(["git", "init", "-q", str(made)], check=True, env=one.home.environ)
        for number, address in enumerate(("sub/theirs", "./sub/theirs", str(made), f"file://{made}")):
            said = await one.run(f"git clone {address} copy{number}", says(ONCE))
            assert "exit code 0" in said, said
        assert "exit code 0" in await one.run("cd copy0 && git fetch && git pull ../sub/theirs; true", says(ONCE))
        assert sources(one) == []


@pytest.mark.needs("git")
async def test_what_a_repository_of_strangers_brings_is_theirs() -> None:
    async with scene("local", trusted=True) as one:
        theirs = one.home.home / "theirs"
        subprocess.run(["git", "init", "-q", str(theirs)], check=True, env=one.home.environ)
        await one.run(f"git clone {theirs} copy", says(ONCE))
        assert sources(one) == [f"file:{theirs}"]


NAMED = {
    "pip install -q x": "web:packages",
    "pip install --index-url=https://user@mirror.invalid/simple x": "web:mirror.invalid",
    "pip install --no-index -r r.txt": "web:packages",
    "npm install x": "web:packages",
    "cargo build": "",
    "pip install --no-index x": "web:packages",
    "git fetch origin": "web:code.invalid",
    "git push": "web:code.invalid",
    "git fetch other": "web:other",
    "curl -sd a=b http://x.invalid": "web:x.invalid",
}


@pytest.mark.needs("git")
@pytest.mark.parametrize("command", NAMED)
async def test_strange_text_goes_by_the_name_of_where_it_is_from(command: str) -> None:
    from hermes.tools.result_provenance import find_provenance

    async with scene("local", trusted=True) as one:
        subprocess.run(["git", "init", "-q", str(one.home.cwd)], check=True, env=one.home.environ)
        subprocess.run(["git", "remote", "add", "origin", "git@code.invalid:a/b.git"], check=True, cwd=one.home.cwd)
        found = find_provenance(decided(one, command).effects, (), one.context, None, runs=False)
        assert (f"{found.source}:{found.label}" if found else "") == NAMED[command]


@pytest.mark.needs("curl")
async def test_a_connection_that_did_not_come_about_brings_nothing() -> None:
    async with scene(trusted=True) as one:
        await one.run("curl -sS http://a.invalid/", says(NO))
        assert sources(one) == []
    async with scene("local", trusted=True) as one:
        await one.run("curl -sS http://127.0.0.1:1/")
        assert sources(one) == []
        await one.run("curl -sSL http://127.0.0.1:1/")  # who knows what came before
        assert sources(one) == ["web:127.0.0.1"]
