"""Files that hold keys, by tools and by commands alike: a project's are asked about, Hermes' own are closed."""

import json
import sys

import pytest

from hermes.testing.script import Call
from tests.attack.obedient_scene import NO, ONCE, says, scene


@pytest.mark.parametrize("backend", ["local", "sandbox"])
async def test_file_tools_ask_about_a_projects_keys_as_commands_do(backend: str) -> None:
    async with scene(backend, trusted=True) as one:
        file = one.home.cwd / ".env"
        file.write_text("A=1\n")
        await one.turn([Call("read_file", {"path": ".env"})], person=says(NO))
        calls = (
            Call("write_file", {"path": ".env", "content": "A=2\n"}),
            Call("patch", {"path": ".env", "old_string": "A=1", "new_string": "A=3"}),
        )
        for call in calls:
            said = await one.turn([call], person=says(NO))
            assert "Not allowed" in said[0] and file.read_text() == "A=1\n"
        assert [event.reason for event in one.asked] == [f"it writes {file.resolve()}: it holds the project's keys"] * 2
        await one.turn([calls[1]], person=says(ONCE))
        assert file.read_text() == "A=3\n"
        await one.run("echo B=2 >> .env", says(ONCE))
        assert file.read_text() == "A=3\nB=2\n" and len(one.asked) == 4
        said = await one.turn(
            [Call("write_file", {"path": ".git/hooks/post-commit", "content": "x"})], person=says(ONCE)
        )
        assert "Not allowed" in said[0] and len(one.asked) == 4


async def test_commands_read_no_more_of_hermes_own_than_tools_do() -> None:
    async with scene("local", trusted=True) as one:
        file = one.home.hermes / "config.yaml"
        commands = (f"cat {file}", f"wc -l < {file}", f"python3 -c \"print(open('{file}').read())\"")
        for command in commands:
            said = await one.run(command, says(ONCE))
            assert "Not allowed" in said and "Hermes' own" in said, said
        assert not one.asked
        lines = "".join(json.dumps({"cmd": command}) + "\n" for command in commands)
        done = await one.home.run(sys.executable, "-m", "hermes", "guard", "command", "--jsonl", stdin=lines.encode())
        assert [json.loads(line)["verdict"] for line in done.stdout.splitlines()] == ["deny"] * 3
