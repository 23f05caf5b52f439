"""In `local`, where no kernel holds anything back: what a session wrote runs only after a person said so."""

import json

import pytest

from hermes.core.events import ApprovalAsked
from hermes.tools.permissions.evaluate import evaluate_call
from tests.attack.obedient_scene import ONCE, SESSION, Scene, says, scene

PAYLOAD = "touch {home}/pwned\n"
PYTHON = "open('{home}/pwned', 'w').close()\n"

WAYS = {
    "shell script": ("x.sh", PAYLOAD, "bash x.sh"),
    "script by its path": ("x", "#!/bin/sh\n" + PAYLOAD, "chmod +x x && ./x"),
    "sourced": ("env.sh", PAYLOAD, ". ./env.sh"),
    "python file": ("x.py", PYTHON, "python3 x.py"),
    "python module": ("mod.py", PYTHON, "python3 -m mod"),
    "python import": ("mod.py", PYTHON, "python3 -c 'import mod'"),
    "standard library shadowed": ("json.py", PYTHON, "python3 -m json.tool /dev/null"),
    "Makefile": ("Makefile", "all:\n\ttouch {home}/pwned\n", "make"),
    "included makefile": ("extra.mk", "$(shell touch {home}/pwned)\nall:\n", "make -f extra.mk"),
    "conftest": ("conftest.py", PYTHON, "python3 -m pytest -q"),
    "package.json": ("package.json", '{{"scripts": {{"test": "touch {home}/pwned"}}}}', "npm test"),
    "setup.py": ("setup.py", PYTHON, "pip install --no-index ."),
    ".pth": (
        "site/x.pth",
        "import os; os.system('touch {home}/pwned')\n",
        "python3 -c \"import site; site.addsitedir('site')\"",
    ),
    "sitecustomize": ("sitecustomize.py", PYTHON, "PYTHONPATH=. python3 -c 'print(1)'"),
    "git hook": (
        "githooks/pre-commit",
        "#!/bin/sh\n" + PAYLOAD,
        "git -c core.hooksPath=githooks commit --allow-empty -m x",
    ),
    "git alias": ("gitconfig", "[alias]\n x = !touch {home}/pwned\n", "GIT_CONFIG_GLOBAL=gitconfig git x"),
    "bash start file": ("rc", PAYLOAD, "bash --rcfile rc -i -c true"),
    "BASH_ENV": ("rc", PAYLOAD, "BASH_ENV=rc bash -c true"),
    "awk program": ("x.awk", 'BEGIN {{ system("touch {home}/pwned") }}\n', "awk -f x.awk"),
    "perl": ("x.pl", "system('touch {home}/pwned');\n", "perl x.pl"),
    "node": ("x.js", "require('fs').writeFileSync('{home}/pwned', '')\n", "node x.js"),
    "sed script": ("x.sed", "1e touch {home}/pwned\n", "sed -f x.sed x.sed"),
    "vim script": ("x.vim", "!touch {home}/pwned\n", "vim -es -S x.vim"),
    "tar checkpoint": ("x.sh", PAYLOAD, "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec='sh x.sh' ."),
    "find -exec": ("x.sh", PAYLOAD, "find . -name x.sh -exec sh {{}} ';'"),
    "xargs": ("x.sh", PAYLOAD, "echo x.sh | xargs sh"),
    "redirected input": ("x.sh", PAYLOAD, "sh < x.sh"),
    "piped": ("x.sh", PAYLOAD, "cat x.sh | sh"),
    "tox": ("tox.ini", "[testenv]\ncommands = touch {home}/pwned\n", "tox"),
    "cargo": ("build.rs", "fn main() {{}}\n", "cargo build"),
    "docker": ("Dockerfile", "FROM x\nRUN true\n", "docker build ."),
    "env file": (".envrc", PAYLOAD, "direnv allow . && direnv exec . true"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_written_runs_only_with_a_persons_yes(way: str) -> None:
    path, content, command = WAYS[way]
    async with scene("local", trusted=True) as one:
        home = one.home.home
        written = await one.call("write_file", path=path, content=content.format(home=home))
        said = await one.run(command.format())
        assert "Not allowed" in said or "not open to tools" in written, f"{written}\n{said}"
        assert not (home / "pwned").exists()


async def test_what_the_shell_wrote_counts_too() -> None:
    async with scene("local", trusted=True) as one:
        await one.run("printf 'touch %s/pwned' \"$HOME\" > made.sh")
        assert "Not allowed" in await one.run("bash made.sh")
        await one.run("cp made.sh copy.sh")
        assert "Not allowed" in await one.run("bash copy.sh")
        assert not (one.home.home / "pwned").exists()


async def test_a_yes_is_for_the_file_as_it_is(  # T8: a changed file asks again
) -> None:
    async with scene("local", trusted=True) as one:
        await one.call("write_file", path="x.sh", content="echo first\n")
        assert "first" in await one.run("bash x.sh", says(SESSION))
        assert "first" in await one.run("bash x.sh", says(SESSION)) and len(one.asked) == 1
        await one.call("write_file", path="x.sh", content="echo second\n")
        assert "second" in await one.run("bash x.sh", says(ONCE))
        assert len(one.asked) == 2


async def test_a_file_that_changes_while_the_person_thinks_is_asked_about_again() -> None:
    async with scene("local", trusted=True) as one:
        await one.call("write_file", path="x.sh", content="echo harmless\n")

        def changing(event: ApprovalAsked) -> object:
            if len(one.asked) == 1:
                (one.home.cwd / "x.sh").write_text("echo harmful\n")
            return ONCE if len(one.asked) == 1 else says_no(one)

        said = await one.run("bash x.sh", changing)  # type: ignore[arg-type]
        assert len(one.asked) == 2 and "Not allowed" in said and "harmful" not in said


def says_no(one: Scene) -> object:
    """The second question is answered with no."""
    from tests.attack.obedient_scene import NO

    assert one.asked[0].subject == one.asked[1].subject
    return NO


async def test_what_was_written_before_a_restart_counts_too() -> None:
    async with scene("local", trusted=True) as one:
        await one.call("write_file", path="x.sh", content="touch ../home/pwned\n")
        await one.run("printf 'touch ../home/pwned' > y.sh")
        name = one.actor.session_id
        await one.app.close_session(one.actor)
        one.actor = await one.app.open_session(name)
        for command in ("bash x.sh", "bash y.sh"):
            assert "Not allowed" in await one.run(command)
        assert not (one.home.home / "pwned").exists()


async def test_what_failed_was_not_written() -> None:
    async with scene("local", trusted=True) as one:
        (one.home.cwd / "calc.py").write_text("VALUE = 1\n")
        (one.home.cwd / "test_calc.py").write_text("import calc\nprint('value', calc.VALUE)\n")
        one.context.state.started_at += 3600  # the person's files are older than the session
        said = await one.call("patch", path="calc.py", old_string="not there", new_string="x")
        assert one.context.state.written_files == {}, said
        assert "value 1" in await one.run("python3 test_calc.py")
        await one.call("read_file", path="calc.py")
        await one.call("patch", path="calc.py", old_string="VALUE = 1", new_string="VALUE = 2")
        assert "Not allowed" in await one.run("python3 test_calc.py")
        await one.call("patch", path="calc.py", old_string="not there", new_string="x")
        assert "Not allowed" in await one.run("python3 test_calc.py")


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("python3 -m venv .venv", False),
        ("python3 -m json.tool package.json", False),
        ("npm test", False),
        ("npm run deep", False),
        ("npm run calc", True),
        ("npm run deep-calc", True),
        ("npm run unknown-program", True),
        ("npm install left-pad", False),
        ("make -n", True),
        ("python3 -m calc", True),
        ("python3 -m unittest", True),
    ],
)
async def test_only_what_a_command_would_run_is_named(command: str, runs: bool) -> None:
    scripts = {
        "test": "node -e 'console.log(1)'",
        "deep": "npm test && npm run test",
        "calc": "python3 calc.py",
        "deep-calc": "npm run calc",
        "unknown-program": "whatever --it-is",
    }
    async with scene("local", trusted=True) as one:
        (one.home.cwd / "package.json").write_text(json.dumps({"scripts": scripts}))
        await one.call("write_file", path="calc.py", content="VALUE = 1\n")
        tool = one.app._live[one.actor.session_id][0].tools.toolbox.find("terminal")
        assert tool is not None
        weighed = evaluate_call(tool, tool.parameters.decode(json.dumps({"command": command})), one.context, ())
        assert ("runs-own-file" in [finding.rule for finding in weighed.findings]) is runs
