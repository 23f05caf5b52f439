"""Files that hold keys, by tools and by commands alike: a project's are asked about, Hermes' own are closed, and those
in what is opened stay hidden, whatever they are called.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import pytest

from hermes.core.outcomes import AnswerScope
from hermes.execution.sandbox.opened_keys import is_kept_key
from hermes.testing.script import Call
from tests.attack.four_ways import run_as_user
from tests.attack.obedient_scene import MECHANISM, NO, ONCE, SESSION, Scene, says, scene
from tests.attack.test_opened_folders import UNSEEN, fill_docs, fill_project

WORDS = "plainwords"


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


def write_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"NOTE={WORDS}\nend\n")


@pytest.mark.parametrize("scope", [ONCE, SESSION])
@pytest.mark.parametrize("target", ["content", "files"])
@pytest.mark.parametrize("name", [".env", "server.pem", ".ssh/work", ".ENV"])
async def test_a_search_in_a_folder_that_a_yes_opens_shows_no_keys(name: str, target: str, scope: AnswerScope) -> None:
    async with scene(trusted=True) as one:
        docs = fill_docs(one)
        write_key(docs / "deep" / name)
        pattern = "plain" if target == "content" else Path(name).name
        said = await one.call("search_files", says(scope), pattern=pattern, path=str(docs), target=target)
        assert "No matches" in said
        assert "text of b" in await one.call("search_files", says(scope), pattern="text", path=str(docs))


@pytest.mark.parametrize("command", ["cat ../other/deep/b", "echo x > ../other/deep/new"])
async def test_a_key_made_later_in_an_opened_folder_is_hidden_from_file_tools_at_once(command: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        await one.run(command, says(SESSION))
        for name in ("deep/.env", "deep/.ssh/work", "deep/.npmrc"):
            write_key(project / name)
            assert WORDS not in await one.call("read_file", says(NO), path=str(project / name))
            said = await one.call("patch", says(NO), path=str(project / name), old_string="end", new_string="e")
            assert WORDS not in said and (project / name).read_text().endswith("end\n")
        assert "No matches" in await one.call("search_files", says(NO), pattern=WORDS, path=str(project))


async def test_a_key_made_later_in_an_opened_folder_is_hidden_from_commands() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        await one.run("echo x > ../other/deep/new", says(SESSION))
        write_key(project / "deep/.env")
        (one.home.cwd / "r.py").write_text("print(open('../other/deep/.env').read())")
        async with asyncio.timeout(20):  # not all folders are watched: it takes seconds
            while WORDS in await one.run("python3 r.py", says(NO)):
                pass


@pytest.mark.parametrize("kind", ["link", "hard link", "link in a folder of keys"])
async def test_a_key_by_a_second_name_is_hidden(kind: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        (project / ".env").unlink()
        target = project / "shared/production"
        write_key(target)
        if kind == "link":
            (project / ".env").symlink_to("shared/production")
        elif kind == "hard link":
            os.link(target, project / ".env")
        else:
            (project / ".ssh").mkdir()
            (project / ".ssh/work").symlink_to("../shared/production")
        assert WORDS not in await one.run("grep -r NOTE= ../other/shared", says(ONCE))
        assert "No matches" in await one.call("search_files", says(ONCE), pattern=WORDS, path=str(project))
        await one.run("cat ../other/deep/b", says(SESSION))
        one.asked.clear()
        assert WORDS in await one.call("read_file", says(ONCE), path=str(target))
        assert [asked.subject for asked in one.asked] == [f"read_file {target}"]
        assert WORDS not in await one.call("read_file", says(NO), path=str(target))


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize(
    "links",
    [
        {".ssh/keys": "../shared"},
        {".gnupg/private-keys-v1.d": "../shared/deep"},
        {".env": "shared"},
        {".ssh": "shared"},
        {".ssh/keys": "../between", "between": "first", "first/more": "../shared"},
        {".ssh/keys": "../shared", ".ssh/self": ".", "shared/back": "../.ssh", "shared/again": "../shared"},
        {".ssh/up": ".."},
    ],
)
async def test_a_folder_to_which_keys_are_linked_is_hidden(links: dict[str, str]) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        write_key(project / "shared/deep/work")
        os.link(project / "shared/deep/work", project / "notes")
        (project / "first").mkdir()
        (project / ".env").unlink()
        for name, target in links.items():
            link(project / name, target)
        await one.run("ls ../other", says(SESSION))
        for name in ("shared/deep/work", "notes"):
            asked = len(one.asked)
            assert WORDS not in await one.run(f"cat ../other/{name}", says(SESSION))
            assert len(one.asked) == asked
            assert WORDS not in await one.call("read_file", says(NO), path=str(project / name))
        assert "No matches" in await one.call("search_files", says(NO), pattern=WORDS, path=str(project))
        is_all = ".ssh/up" in links
        assert ("mine" in await one.run("cat ../other/deep/b", says(NO))) is not is_all


async def test_a_folder_of_many_files_to_which_a_key_is_linked_counts_once() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        (project / ".env").unlink()
        for number in range(600):
            write_key(project / f"shared/{number}")
        link(project / ".env", "shared")
        assert "mine" in await one.run("cat ../other/deep/b", says(SESSION))
        assert WORDS not in await one.run("cat ../other/shared/*", says(NO))


@pytest.mark.parametrize("name", [".ssh/id_rsa", ".ssh/deep/work", ".netrc", ".claude/.credentials.json"])
async def test_a_second_name_of_the_homes_own_key_is_hidden(name: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        shown = (".ssh/id_rsa.pub", ".claude/node_modules/a.js")
        for number, key in enumerate((name, *shown)):
            write_key(one.home.home / key)
            os.link(one.home.home / key, project / f"deep/{number}")
        assert WORDS not in await one.run("cat ../other/deep/0", says(SESSION))
        await one.run("ls ../other", says(SESSION))
        assert WORDS not in await one.run("cat ../other/deep/0", says(NO))
        assert WORDS not in await one.call("read_file", says(NO), path=str(project / "deep/0"))
        assert "No matches" in await one.call("search_files", says(NO), pattern=WORDS, path=str(project))
        assert (await one.run("cat ../other/deep/[12]", says(NO))).count(WORDS) == 2


@pytest.mark.parametrize("place", [".ssh/work", ".aws/credentials", ".kube/config", ".config/gh/hosts.yml"])
async def test_what_a_key_of_the_home_leads_to_is_hidden(place: str) -> None:
    """As programs that keep start files in a repository link them."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        dotfiles = one.home.cwd.resolve().with_name("dotfiles")
        dotfiles.mkdir()
        (dotfiles / "readme").write_text("hi")
        (dotfiles / "plain").write_text("KEPT")
        link = one.home.home / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(dotfiles / "plain")
        await one.run(f"cat {dotfiles}/readme", says(SESSION))
        assert "KEPT" not in await one.run(f"cat {dotfiles}/plain", says(NO))
        assert "KEPT" not in await one.call("read_file", says(NO), path=f"{dotfiles}/plain")


@pytest.mark.parametrize("name", [".env~", ".ENV", "id_rsa.bak", "server.PEM", ".ssh/work", ".kube/config", ".npmrc"])
async def test_copies_of_keys_and_of_key_folders_are_hidden(name: str) -> None:
    async with scene(trusted=True) as one:
        docs = fill_docs(one)
        write_key(docs / name)
        assert WORDS not in await one.run("grep -r . ~/Docs", says(ONCE))


async def test_what_is_called_like_a_key_and_holds_none_is_shown() -> None:
    async with scene(trusted=True) as one:
        docs = fill_docs(one)
        names = (
            ".env.example",
            ".env.sample",
            "id_rsa.pub",
            ".ssh/id_rsa.pub",
            ".env/lib/a.py",
            "token",
            "app/config",
            "cacert.pem",
        )
        for name in names:
            assert not is_kept_key(str(docs / name))
        for name in (
            "a/.env.example",
            "a/.env.sample",
            "a/id_rsa.pub",
            ".ssh/id_rsa.pub",
            "token",
            "app/config",
            "a/cacert.pem",
        ):
            write_key(docs / name)
        write_key(docs / ".ssh/work")
        await one.run(UNSEEN, says(SESSION))
        assert (await one.run("grep -r . ~/Docs/a ~/Docs/app ~/Docs/token", says(NO))).count(":end") == 6
        assert WORDS in await one.run("cat ~/Docs/.ssh/id_rsa.pub", says(NO))
        assert WORDS not in await one.run("cat ~/Docs/.ssh/work", says(NO))
        assert WORDS in await one.call("read_file", says(NO), path=str(docs / ".ssh/id_rsa.pub"))


async def test_a_key_of_the_workspace_stays_open_when_its_repository_is_opened() -> None:
    async with scene(trusted=True, workspace="home/code/other/part") as one:
        project = one.home.cwd.parent.resolve()
        one.open_tmp()
        (project / ".git").mkdir()
        (project / "mine").write_text("mine")
        write_key(one.home.cwd / ".env")
        (one.home.cwd / "r.py").write_text("print(open('.env').read())")
        for command in ("true", f"cat {project}/mine"):
            await one.run(command, says(SESSION))
            assert WORDS in await one.run("python3 r.py", says(NO))
            assert WORDS in await one.call("read_file", says(NO), path=".env")


def fill_past_the_limit(one: Scene) -> Path:
    docs = fill_docs(one)
    for number in range(51):
        folder = docs / f"d{number}"
        folder.mkdir()
        (folder / "0").touch()
        for name in range(1, 1_000):
            os.link(f"{folder}/0", f"{folder}/{name}")
    return docs


async def test_a_folder_that_is_too_large_is_not_asked_about() -> None:
    async with scene(trusted=True) as one:
        docs = fill_past_the_limit(one)
        said = await one.run("echo ran first; " + UNSEEN, says(SESSION))
        assert "ran first" in said
        assert [asked.subject for asked in one.asked] == [f"read {docs}/b"]
        assert "text of b" in await one.run(UNSEEN, says(NO))


def write_program(one: Scene, name: str, text: str) -> None:
    """A program of the workspace: the gate does not see what it does."""
    (one.home.cwd / name).write_text(text)


async def test_a_key_stays_hidden_beside_links_that_lead_in_a_circle() -> None:
    """Links with a key's name that cannot be followed end no look: what comes after them is found."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        plant = "import os; os.chdir('../other'); [os.symlink(f'{n}.pem', f'{n}.pem') for n in range(900)]"
        write_program(one, "plant.py", plant)
        write_program(one, "read.py", "print(open('../other/.env').read())")
        assert WORDS not in await one.run("touch ../other/new; python3 read.py", says(ONCE))
        await one.run("touch ../other/new; python3 plant.py", says(ONCE))
        if MECHANISM == "landlock":  # nothing new is made beside a key there: such links are the person's own
            for number in range(900):
                (project / f"{number}.pem").symlink_to(f"{number}.pem")
        assert WORDS not in await one.run("touch ../other/new; python3 read.py", says(ONCE))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser lists every folder: see the next test")
async def test_a_key_in_a_folder_that_nobody_may_list_stays_hidden() -> None:
    """A command takes the right to list a folder away, and the next one knows the name of the key in it."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        (project / "deep/.env").write_text(f"NOTE={WORDS}")
        write_program(one, "close.py", "import os; os.chmod('../other/deep', 0o300)")
        write_program(one, "read.py", "print(open('../other/deep/.env').read())")
        try:
            await one.run("touch ../other/new; python3 close.py", says(ONCE))
            said = await one.run("touch ../other/new; python3 read.py", says(ONCE))
        finally:
            (project / "deep").chmod(0o755)
        assert WORDS not in said


@pytest.mark.needs("setpriv")
@pytest.mark.skipif(os.geteuid() != 0, reason="the test before is run itself")
def test_an_ordinary_user_s_key_in_a_folder_that_nobody_may_list_stays_hidden() -> None:
    name = "test_a_key_in_a_folder_that_nobody_may_list_stays_hidden"
    done = run_as_user([f"{os.path.relpath(__file__)}::{name}"], MECHANISM)
    assert done.returncode == 0, done.stdout[-3_000:]


async def test_a_key_made_later_is_hidden_in_a_folder_that_has_grown() -> None:
    """A command fills an opened folder beyond what is looked through for keys: it is closed then."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        (project / "deep/a/b").mkdir(parents=True)
        (project / ".env").unlink()
        fill = "import os; open('../other/a', 'w'); [os.link('../other/a', f'../other/{n}') for n in range(50_000)]"
        write_program(one, "fill.py", fill)
        write_program(one, "read.py", "print(open('../other/deep/a/b/.env').read())")
        await one.run("touch ../other/new; python3 fill.py", says(SESSION))
        (project / "deep/a/b/.env").write_text(f"NOTE={WORDS}")
        until = time.monotonic() + 12  # not all folders are watched: it takes seconds
        while WORDS in (said := await one.run("python3 read.py", says(NO))) and time.monotonic() < until:
            pass
        assert WORDS not in said


async def test_names_of_many_signs_cost_little() -> None:
    """1,000 of 50,000 names: the folder around the workspace is looked through for keys before anybody is asked."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        name = ".~" * 120
        make = f"import os\nos.mkdir('sub')\nopen('a', 'w')\nfor n in range(1_000): os.link('a', f'sub/{name}{{n}}')"
        write_program(one, "make.py", make)
        await one.run("python3 make.py")
        assert len(os.listdir(one.home.cwd / "sub")) == 1_000
        started = time.process_time()
        await one.run("touch ../new", says(NO))
        assert time.process_time() - started < 0.5


def test_a_key_is_known_with_a_word_before_it_or_a_number_behind() -> None:
    kept = ("prod.env", "backup-id_rsa", "Copy of .env", "id_rsa (1)", ".id_rsa.swp", ".env (2)", f"x{'.bak' * 9}")
    assert [one for one in kept if not is_kept_key(f"/docs/{one}")] == []
    shown = ("valid_rsa", "id_rsa.py", "environment", "prod.env.example", "notes (1)", "id_rsa.pub")
    assert [one for one in shown if is_kept_key(f"/docs/{one}")] == []


@pytest.mark.parametrize("scope", [ONCE, SESSION])
async def test_what_a_key_led_to_stays_hidden_when_its_name_is_gone(scope: AnswerScope) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        (project / ".env").unlink()
        (project / "shared").mkdir()
        (project / "shared/production").write_text(f"NOTE={WORDS}")
        (project / ".env").symlink_to("shared/production")
        write_program(one, "unlink.py", "import os; os.unlink('../other/.env')")
        write_program(one, "read.py", "print(open('../other/shared/production').read())")
        await one.run("touch ../other/new; python3 unlink.py", says(scope))
        assert WORDS not in await one.run("touch ../other/new; python3 read.py", says(scope))


async def test_more_keys_than_can_be_hidden_close_a_folder_and_end_no_session() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        fill_project(one)
        write_program(one, "fill.py", "[open(f'../other/{n}.pem', 'w') for n in range(4_000)]")
        await one.run("touch ../other/new; python3 fill.py", says(SESSION))
        # Within two seconds of the last look it is asked about, which says no more than that something is there.
        assert ".pem" not in await one.run("ls ../other", says(NO))
        assert "here" in await one.run("echo he''re", says(NO))
