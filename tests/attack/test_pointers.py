"""What stands for something else: pointers and links that lead git, an editor or another agent to a command's files."""

import subprocess
from pathlib import Path

import pytest

from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.policy import find_own_git_folders
from hermes.safety.autorun_files import HELD_SUFFIX
from tests.attack.obedient_scene import MECHANISM, NO, ONCE, SESSION, Scene, says, scene


async def run_program(one: Scene, text: str) -> str:
    """A program of the person's runs in the sandbox: neither the gate nor a file tool sees what it writes."""
    (one.home.cwd / "program.py").write_text(f"import os, subprocess\n{text}")
    said = await one.run("python3 program.py")
    assert "exit code 0" in said, said
    return said


def git_runs(one: Scene, folder: Path) -> None:
    """The person looks with git, outside of the sandbox."""
    for words in ("status", "commit -q --allow-empty -m x", "diff"):
        subprocess.run(["git", "-C", folder, *words.split()], env=one.home.environ, check=False, capture_output=True)


MAKE = """
for kind, folder in (['--bare', 'x'], ['-q', 'w/.git']):
    subprocess.run(['git', 'init', '-q', kind, own + '/' + folder.removesuffix('/.git')], check=True)
    config, hook = (f'{own}/{folder}/{name}' for name in ('config', 'hooks/post-commit'))
    open(config, 'w').write('[core]\\n\\tbare = false\\n\\tfsmonitor = touch {pwned}; false\\n')
    os.makedirs(os.path.dirname(hook), exist_ok=True)
    open(hook, 'w').write('#!/bin/sh\\ntouch {pwned}\\n')
    os.chmod(hook, 0o755)
os.makedirs(work, exist_ok=True)
os.chdir(work)
"""
POINTERS = {
    "a pointer": "open('.git', 'w').write(f'gitdir: {tmp}/x\\n')",
    "a link": "os.symlink(tmp + '/x', '.git')",
    "a pointer without a line's end": "open('.git', 'w').write(f'gitdir: {tmp}/x')",
    "a pointer by a link": "os.symlink(tmp, 't'); open('.git', 'w').write('gitdir: t/x')",
    "a link to a pointer": "open('p', 'w').write(f'gitdir: {tmp}/x'); os.symlink('p', '.git')",
    "a link by a link": "os.symlink(tmp, 't'); os.symlink('t/x', '.git')",
    "a folder of links": "os.mkdir('.git'); [os.symlink(f'{tmp}/x/{n}', '.git/' + n) for n in os.listdir(own + '/x')]",
    "a common folder": "os.mkdir('.git'); open('.git/HEAD', 'w').write('ref: refs/heads/x');"
    " open('.git/commondir', 'w').write(tmp + '/x')",
    "a link to the work tree": "os.symlink(tmp + '/w', 'x')",
    "a link to the work tree by a link": "os.symlink(tmp, 't'); os.symlink('t/w', 'x')",
    "a link by a process": "os.symlink(f'/proc/{os.getppid()}/root/' + tmp + '/w', 'x')",
}


@pytest.mark.needs("git")
@pytest.mark.parametrize("named", ["as commands do", "as the machine does"])
@pytest.mark.parametrize("place", [".", "sub"])
@pytest.mark.parametrize("way", POINTERS)
async def test_a_repository_in_the_sessions_tmp_runs_nothing(way: str, place: str, named: str) -> None:
    async with scene(trusted=True) as one:
        pwned = one.home.root / "pwned"
        await one.run("true")
        assert isinstance(one.context.backend, SandboxBackend)
        tmp = one.context.backend.to_local_path("/tmp") if named == "as the machine does" else "/tmp"
        own = f"work, tmp, own = {place!r}, {tmp!r}, os.environ.get('TMPDIR', '/tmp')\n"
        await run_program(one, own + MAKE.replace("{pwned}", str(pwned)) + POINTERS[way])
        git_runs(one, one.home.cwd / place)
        git_runs(one, one.home.cwd / place / "x")
        assert not pwned.exists()


LINKED = (".opencode/plugin", ".idea/runConfigurations", ".kiro/settings", ".junie/mcp", ".claude", ".kiro", ".husky")
FILES = {
    ".opencode/plugin": "x.js",
    ".idea/runConfigurations": "x.xml",
    ".kiro/settings": "mcp.json",
    ".junie/mcp": "mcp.json",
    ".claude": "settings.json",
    ".kiro": "settings/mcp.json",
    ".husky": "pre-commit",
}


@pytest.mark.parametrize("depth", ["", "a/b/"])
@pytest.mark.parametrize("folder", LINKED)
async def test_a_link_in_the_place_of_settings_leads_to_nothing_of_a_commands(folder: str, depth: str) -> None:
    async with scene(trusted=True) as one:
        link = one.home.cwd / depth / folder
        said = await run_program(
            one,
            f"os.makedirs('lib', exist_ok=True); os.makedirs({str(link.parent)!r}, exist_ok=True)\n"
            f"os.symlink({str(one.home.cwd / 'lib')!r}, {str(link)!r})",
        )
        assert "was made by a command" in said
        await one.call("write_file", path=f"lib/{FILES[folder]}", content="theirs")
        assert (one.home.cwd / "lib" / FILES[folder]).exists()
        assert not (link / FILES[folder]).exists()


@pytest.mark.parametrize("named", ["by the link", "by its own name"])
@pytest.mark.parametrize("folder", LINKED)
async def test_what_the_persons_own_link_leads_to_is_kept(folder: str, named: str) -> None:
    async with scene(trusted=True) as one:
        link = one.home.cwd / folder
        link.parent.mkdir(exist_ok=True)
        target = one.home.cwd / "config"
        (target / FILES[folder]).parent.mkdir(parents=True)
        (target / "mine").write_text("mine")
        link.symlink_to(target)
        way = link if named == "by the link" else target
        assert "Not allowed" in await one.call("write_file", path=str(way / FILES[folder]), content="theirs")
        await run_program(
            one, f"try: open({str(way / FILES[folder])!r}, 'w').write('theirs')\nexcept OSError as error: print(error)"
        )
        assert not (target / FILES[folder]).exists() and (target / "mine").exists()
        assert link.is_symlink()


@pytest.mark.needs("git")
async def test_pointers_that_git_makes_in_the_workspace_stay() -> None:
    async with scene(trusted=True) as one:
        git = "git -c user.name=a -c user.email=a@b -c protocol.file.allow=always"
        said = await run_program(
            one,
            "for words in ('init -q lib', '-C lib commit -q --allow-empty -m x', 'clone -q lib app',"
            " '-C app submodule --quiet add ../lib sub', '-C app worktree add -q ../tree -b t',"
            " 'clone -q --separate-git-dir=kept lib apart'):\n"
            f" subprocess.run([*{git!r}.split(), *words.split()], check=True)",
        )
        assert "made by a command" not in said
        assert all((one.home.cwd / name).is_file() for name in ("app/sub/.git", "tree/.git", "apart/.git"))


@pytest.mark.needs("git")
@pytest.mark.parametrize("steps", ["at once", "in two commands"])
async def test_settings_in_a_repository_that_loses_its_git_are_moved_aside(steps: str) -> None:
    async with scene(trusted=True) as one:
        make = (
            "subprocess.run(['git', 'init', '-q', 'd'], check=True); os.mkdir('d/.claude')\n"
            "open('d/.claude/settings.json', 'w').write('{}'); open('d/.mcp.json', 'w').write('{}')\n"
        )
        lose = "import shutil; shutil.rmtree('d/.git')"
        for text in (make, lose) if steps == "in two commands" else (make + lose,):
            said = await run_program(one, text)
        assert "was made by a command" in said
        assert not (one.home.cwd / "d/.claude/settings.json").exists() and not (one.home.cwd / "d/.mcp.json").exists()


TREE = """
at = f'{other}/.git/worktrees/w'
os.makedirs(at)
for name, said in ('gitdir', f'{work}/.git'), ('commondir', '../..'), ('HEAD', 'ref: refs/heads/w'):
    open(f'{at}/{name}', 'w').write(said + '\\n')
"""
LEADS = {
    "as git does": "open('.git', 'w').write(f'gitdir: {at}\\n')",
    "with more spaces": "open('.git', 'w').write(f'gitdir:  {at}\\n')",
    "by two lines": "os.mkdir('x'); open('.git', 'w').write(f'gitdir:{at}\\ngitdir: x')",
    "by a link": "os.symlink(at, 'x'); open('.git', 'w').write('gitdir: x')",
    "by what is a link later": "os.mkdir('x'); open('.git', 'w').write('gitdir: x')",
    "by what is no path": "open('.git', 'w').write(f'gitdir: x\\0{at}')",
    "by the person's own file": "",
}


@pytest.mark.needs("git")
@pytest.mark.parametrize("way", LEADS)
async def test_a_yes_for_once_opens_no_repository_to_later_sessions(way: str) -> None:
    """A program makes the workspace a work tree of a repository that is opened to its command alone."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        work = one.home.cwd.resolve()
        other = work.parent / "other"
        subprocess.run(["git", "init", "-q", str(other)], check=True, env=one.home.environ)
        if not LEADS[way]:
            (work / ".git").write_text(f"gitdir: {other}/.git/worktrees/w\n")
        parts = "'../oth' + 'er'"
        (work / "w.py").write_text(
            f"import os\nwork, other = os.getcwd(), os.path.abspath({parts})\n"
            f"open(other + '/by_program', 'w')\n{TREE}{LEADS[way]}\n"
        )
        await one.run("echo x > ../other/new; python3 w.py", says(ONCE))
        if way == "by what is a link later":
            (work / "v.py").write_text(f"import os; os.rmdir('x'); os.symlink({parts} + '/.git/worktrees/w', 'x')")
            await one.run("python3 v.py", says(NO))
            assert (work / "x").is_symlink()
        assert (other / "by_program").exists() and find_own_git_folders(one.context.places) == ()


@pytest.mark.needs("git")
async def test_a_submodule_in_what_is_opened_stays() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        code = one.home.cwd.resolve().parent
        git = "git -c user.name=a -c user.email=a@b -c protocol.file.allow=always"
        for words in (
            "init -q lib",
            "-C lib commit -q --allow-empty -m x",
            "init -q app",
            "-C app submodule add ../lib sub",
        ):
            subprocess.run([*git.split(), *words.split()], cwd=code, check=True, capture_output=True)
        subprocess.run([*git.split(), "-C", "app", "commit", "-qm", "x"], cwd=code, check=True, capture_output=True)
        await one.run("git ls-remote ../lib", says(SESSION))  # where the submodule is from, its list alone says
        said = await one.run(f"{git} clone -q --recurse-submodules ../app ../other/app", says(SESSION))
        assert "exit code 0" in said and (code / "other/app/sub/.git").is_file(), said


@pytest.mark.needs("git")
async def test_a_command_makes_no_later_session_write_the_repositories_of_submodules() -> None:
    """A yes for one session makes the workspace a work tree of the folder of all submodules' repositories: the look
    takes a carriage return for a part of a comment, who opens git's folder to later sessions takes it for a line's end.
    """
    async with scene(trusted=True, workspace="home/code/super/work") as one:
        one.open_tmp()
        top = one.home.cwd.parent.resolve()
        for words in ("init -q -b main", "init -q --bare .git/modules/lib"):
            subprocess.run(["git", "-C", str(top), *words.split()], check=True, env=one.home.environ)
        await one.run("touch ../new", says(SESSION))
        await run_program(
            one,
            "modules = '../.git/modules/'\n"
            "for name in ('objects', 'refs'): os.makedirs(modules + name)\n"
            "open(modules + 'HEAD', 'w').write('ref: refs/heads/main\\n')\n"
            "open(modules + 'config', 'w', newline='').write('# x\\rworktree = ../../work\\n')\n"
            "open('.git', 'w').write('gitdir: ../.git/modules\\n')\n",
        )
        one.asked.clear()
        one.actor = await one.app.open_session()
        one.open_tmp()
        write = "open('../.git/modules/lib/refs/heads/theirs', 'w')"
        (one.home.cwd / "write.py").write_text(write)
        await one.run("python3 write.py", says(NO))
        assert not (top / ".git/modules/lib/refs/heads/theirs").exists()


OBEYED = (
    *(
        ".ssh/config",
        ".config/git/config",
        ".config/git/hooks/pre-commit",
        ".claude/settings.json",
        ".claude/CLAUDE.md",
    ),
    *(".codex/config.toml", ".gemini/GEMINI.md", ".cursor/mcp.json", ".config/opencode/opencode.json", ".tigrc"),
    *(".config/systemd/user/default.target.wants/job.service", ".config/Code/User/settings.json", ".kube/config"),
    *(".gnupg/gpg-agent.conf", ".gradle/init.gradle", ".zsh/plugins/a.zsh", ".oh-my-zsh/custom/a.zsh", ".wezterm.lua"),
    *(".local/bin/tool", "bin/tool", ".config/lazygit/config.yml", ".xonshrc", ".config/mpv/scripts/a.lua", ".bashrc"),
    *(".nobody-knows-this/one", ".hermes/skills/mine/SKILL.md"),
)
FOLDERS = (".claude/skills", ".vim", ".config/nvim", ".emacs.d", ".nobody-knows-this/plugins")


def link_home(one: Scene, links: dict[str, Path]) -> None:
    """The person keeps in the workspace what programs look for in their home."""
    for name, target in links.items():
        link = one.home.home / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


@pytest.mark.parametrize("there", [True, False], ids=["there", "not there yet"])
async def test_what_links_in_hidden_places_of_the_home_lead_to_is_kept(there: bool) -> None:
    async with scene(trusted=True) as one:
        cwd = one.home.cwd.resolve()
        files = {name: cwd / "dot" / f"f{number}" for number, name in enumerate(OBEYED)}
        folders = {name: cwd / "dot" / f"d{number}" for number, name in enumerate(FOLDERS)}
        for path in (*files.values(), *(folder / "sub/one" for folder in folders.values())) if there else ():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("mine")
        link_home(one, files | folders)
        for _ in range(2):
            await run_program(
                one,
                f"for path in {[*map(str, files.values())]}:\n"
                f"    for way in ('open', 'replace'):\n"
                "        try:\n"
                "            os.makedirs('dot', exist_ok=True); open('new', 'w').write('theirs')\n"
                "            open(path, 'w').write('theirs') if way == 'open' else os.replace('new', path)\n"
                "        except OSError as error: print(error)\n"
                f"for path in {[*map(str, folders.values())]}:\n"
                "    try:\n"
                "        os.makedirs(path + '/sub', exist_ok=True); open(path + '/sub/one', 'w').write('theirs')\n"
                "        open(path + '/two', 'w').write('theirs')\n"
                "    except OSError as error: print(error)\n",
            )
        found = {path.read_text() for path in files.values() if path.exists()}
        found |= {each.read_text() for one in folders.values() for each in one.rglob("*") if not _is_held(each)}
        assert found == ({"mine"} if there else set())


def _is_held(path: Path) -> bool:
    return path.is_dir() or path.name.endswith(HELD_SUFFIX)


async def test_what_is_data_in_hidden_places_is_the_commands() -> None:
    """And so is a workspace to which a program's folder leads, but for a name that is known to be obeyed."""
    async with scene(trusted=True) as one:
        cwd = one.home.cwd.resolve()
        names = (
            ".cache/x",
            ".local/share/Trash/files/x",
            ".npm-lib/node_modules/x",
            ".bash_history",
            ".cargo/registry/x",
        )
        targets = {name: cwd / f"data{number}" for number, name in enumerate(names)}
        link_home(one, {**targets, ".program/extensions/mine": cwd, ".other": cwd.parent})
        (one.home.home / ".venvs/x/lib").mkdir(parents=True)
        said = await one.run("for one in 0 1 2 3 4; do echo data > data$one || exit; done; echo own > README.md")
        assert "exit code 0" in said and "made by a command" not in said
        assert {path.read_text() for path in targets.values()} == {"data\n"}
        await one.call("write_file", path="data0", content="mine")
        assert targets[names[0]].read_text() == "mine"


@pytest.mark.parametrize("name", [".local/bin/tool", ".config/unknown/hooks/x", ".bashrc"])
@pytest.mark.parametrize("there", [True, False], ids=["there", "not there yet"])
async def test_file_tools_ask_before_they_change_what_a_link_of_the_home_leads_to(name: str, there: bool) -> None:
    async with scene(trusted=True, config={"command_allowlist": ["write /**", "write /*"]}) as one:
        file = one.home.cwd.resolve() / "src" / "tool.py"
        file.parent.mkdir()
        if there:
            file.write_text("mine\n")
        link_home(one, {name: file})
        calls = [{"name": "write_file", "path": "src/tool.py", "content": "theirs\n"}]
        calls += [{"name": "patch", "path": "src/tool.py", "old_string": "mine", "new_string": "theirs"}] * there
        for call in calls:
            assert "Not allowed" in await one.call(**call, person=says(NO))
            assert "Not allowed" in await one.call(**call)
        why = f"{one.home.home.resolve()}/{name} leads to it, so programs run or obey it: only file tools change it"
        asked = [event.reason for event in one.asked]
        assert asked == [f"it writes {file}: {why}, and ask before"] * len(calls)
        assert not there or file.read_text() == "mine\n"
        said = await one.run("echo theirs >> src/tool.py", says(ONCE))
        assert (file.read_text() if there else file.exists()) == ("mine\n" if there else False)
        assert not there or MECHANISM == "landlock" or why in said
        await one.call(**calls[-1], person=says(ONCE))
        await one.run("true")
        assert file.read_text() == "theirs\n"
