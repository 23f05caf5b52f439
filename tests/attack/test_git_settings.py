"""Settings of git in a sandbox: the harmless ones work after a yes, those that let git run programs never."""

import asyncio
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.attack.obedient_scene import MECHANISM, NO, ONCE, SESSION, Scene, says, scene
from tests.attack.test_pointers import run_program

IN_THE_KERNEL = pytest.mark.skipif(
    MECHANISM == "landlock", reason="only bubblewrap keeps settings as they are while a command runs"
)


AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b.test")


def repository(one: Scene) -> Path:
    """The workspace as a repository with a setting of the person's own that lets git run a program."""
    subprocess.run(["git", "init", "-q", str(one.home.cwd)], check=True, env=one.home.environ)
    config = one.home.cwd / ".git/config"
    config.write_text(config.read_text() + '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n')
    return config


HARMLESS = {
    "git config user.name 'Ann Lee'": "name = Ann Lee",
    "git config --local user.email ann@x.test": "email = ann@x.test",
    "git remote add origin https://x.test/a.git": "url = https://x.test/a.git",
    "git remote add origin git@x.test:a/b.git && git remote -v": "url = git@x.test:a/b.git",
    "cd .git/.. && git config user.name Ann": "name = Ann",
    "git config user.name 'Ann Lee' 2>&1;\n\ngit config user.email a@x.test || echo no": "name = Ann Lee",
    "git config user.name Ann | echo done\n": "name = Ann",
}


@pytest.mark.needs("git")
@pytest.mark.parametrize("command", HARMLESS)
async def test_harmless_settings_work_after_a_yes(command: str) -> None:
    async with scene(trusted=True) as one:
        config = repository(one)
        before = config.read_text()
        assert "Not allowed" in await one.run(command)
        said = await one.run(command, says(ONCE))
        assert "exit code 0" in said, said
        assert len(one.asked) == 1 and "settings of the repository" in one.asked[0].reason
        assert HARMLESS[command] in config.read_text() and config.read_text().startswith(before.rstrip("\n"))
        assert list((one.home.cwd / ".git").glob("*.held")) == []


@pytest.mark.needs("git")
async def test_a_submodule_is_added_and_updated_after_a_yes() -> None:
    allow = "-c protocol.file.allow=always"
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        config = repository(one)
        library = one.home.cwd.parent.resolve() / "lib"
        for words in (
            ("init", "-q", str(library)),
            ("-C", str(library), *AUTHOR, "commit", "-q", "--allow-empty", "-mx"),
        ):
            subprocess.run(["git", *words], check=True, env=one.home.environ)
        assert "exit code 0" in await one.run(f"git {allow} submodule add -q ../lib parts/lib", says(ONCE))
        assert "read" in one.asked[0].session_covers and "settings of the repository" in one.asked[0].reason
        assert '[submodule "parts/lib"]' in config.read_text()
        assert "exit code 0" in await one.run(f"git {allow} submodule update --init", says(ONCE))
        assert "exit code 0" in await one.run("git submodule status", says(NO))
        assert len(one.asked) == 2


@pytest.mark.needs("git")
@pytest.mark.parametrize("option", ["-c core.fsmonitor=./evil", "-c alias.x=!./evil"])
async def test_options_of_a_call_that_run_programs_change_no_settings(option: str) -> None:
    async with scene(trusted=True) as one:
        config = repository(one)
        (one.home.cwd / "evil").write_text("#!/bin/sh\ngit config core.pager ./evil\n")
        (one.home.cwd / "evil").chmod(0o755)
        before = config.read_text()
        await one.run(f"git {option} submodule init; git {option} status", says(ONCE))
        assert config.read_text() == before and one.asked == []


@pytest.mark.needs("git")
async def test_a_no_and_the_session() -> None:
    async with scene(trusted=True) as one:
        config = repository(one)
        before = config.read_text()
        assert "Not allowed" in await one.run("git config user.name Ann", says(NO))
        assert config.read_text() == before
        for name in ("Ann", "Ann"):
            assert "exit code 0" in await one.run(f"git config user.name {name}", says(SESSION))
        assert len(one.asked) == 2


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "command",
    [
        "git config core.hooksPath x",
        "git config core.fsmonitor ./x",
        "git config alias.x '!sh x'",
        "git config filter.lfs.clean ./x",
        "git config user.name x && git config core.pager ./x",
        "git remote add x 'ext::sh -c x'",
        "git remote set-url origin '!x'",
        "git config user.name 'a\n[core]\n fsmonitor=./x' && git config core.sshCommand x",
    ],
)
async def test_settings_that_run_programs_never_do(command: str) -> None:
    async with scene(trusted=True) as one:
        config = repository(one)
        before = config.read_text()
        said = await one.run(command, says(ONCE))
        assert "Not allowed" in said and config.read_text() == before


@IN_THE_KERNEL
@pytest.mark.needs("git", "bubblewrap")
async def test_what_does_more_than_that_finds_the_settings_kept() -> None:
    async with scene(trusted=True) as one:
        config = repository(one)
        before = config.read_text()
        said = await one.run("python3 -c 'print(1)'; git config user.name Ann", says(ONCE))
        assert config.read_text() == before
        assert "as a command of their own" in said


@pytest.mark.needs("git")
async def test_what_such_a_command_plants_is_taken_back() -> None:
    async with scene(trusted=True) as one:
        config = repository(one)
        before = config.read_text()
        planted = one.home.cwd / "bin"
        planted.mkdir()
        (planted / "git").write_text('#!/bin/sh\nprintf "[core]\\n\\tfsmonitor = ./evil\\n" >> .git/config\n')
        (planted / "git").chmod(0o755)
        await one.run('export PATH="$PWD/bin:$PATH"', says(ONCE))
        await one.run("git config user.name Ann", says(ONCE))
        assert "fsmonitor" not in config.read_text() and config.read_text().startswith(before.rstrip("\n"))


@pytest.mark.needs("git")
@pytest.mark.parametrize("name", [".git/config", ".git/info/attributes", "own-hooks/pre-push"])
async def test_what_git_obeys_is_as_it_was_after_a_program(name: str) -> None:
    """Where the kernel does not keep it, it is written back, however harmless the change is."""
    async with scene(trusted=True) as one:
        config = repository(one)
        config.write_text(config.read_text() + "[core]\n\thooksPath = own-hooks\n")
        for kept in (".git/info/attributes", "own-hooks/pre-push"):
            (one.home.cwd / kept).parent.mkdir(exist_ok=True)
            (one.home.cwd / kept).write_text("# mine\n")
        before = (one.home.cwd / name).read_bytes()
        text = '[remote "origin"]\n\tpushurl = https://x.test/a\n' if name == ".git/config" else "* text\n"
        (one.home.cwd / "p.py").write_text(
            f"for name in ({name!r}, 'own-hooks/post-commit', 'ran'): open(name, 'a').write({text!r})"
        )
        await one.run("touch ran; python3 p.py || echo >> ran", says(NO))
        assert (one.home.cwd / "ran").read_text() and one.asked == []
        assert (one.home.cwd / name).read_bytes() == before and not (one.home.cwd / "own-hooks/post-commit").exists()


def commits(one: Scene) -> None:
    """The workspace as a repository with a commit in it and nothing but plain settings."""
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "Ann"),
        ("config", "user.email", "ann@x.test"),
        ("commit", "-q", "--allow-empty", "-m", "x"),
        ("branch", "g"),
    ):
        subprocess.run(["git", "-C", str(one.home.cwd), *words], check=True, env=one.home.environ)


@IN_THE_KERNEL
@pytest.mark.needs("git", "bubblewrap")
async def test_branches_go_and_what_stays_of_them_is_said_in_a_line() -> None:
    async with scene(trusted=True) as one:
        commits(one)
        for command in ("git branch -d g", "git branch -m other"):
            said = await one.run(command)
            assert "that is done, but for the branch's section" in said and "ask the person" not in said
        assert (await one.run("git branch --format='<%(refname:short)>'")).startswith("<other>\n[")


@IN_THE_KERNEL
@pytest.mark.needs("git", "bubblewrap")
async def test_a_setting_and_a_commit_are_one_question() -> None:
    async with scene(trusted=True) as one:
        commits(one)
        line = "git config user.name Bob && git commit -q --allow-empty -m y && git log -1 --format=%an"
        assert "Not allowed" in await one.run(line)
        assert (await one.run(line, says(ONCE))).startswith("Bob") and len(one.asked) == 1
        hook = one.home.cwd / ".git/hooks/pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ntrue\n")
        hook.chmod(0o755)
        assert "as a command of their own" in await one.run(line.replace("Bob", "Eve"), says(ONCE))


@pytest.mark.needs("git")
async def test_git_only_looks_in_a_strangers_repository() -> None:
    async with scene("local") as one:
        commits(one)
        await one.run("git status")
        assert one.context.state.taint.list_sources()
        assert "Not allowed" not in await one.run("git log -1; git diff")
        await one.run("git commit -q --allow-empty -m y", says(NO))
        assert "it does more than look while" in one.asked[0].reason
        config = one.home.cwd / ".git/config"
        config.write_text(config.read_text() + "[core]\n\tfsmonitor = ./x\n")
        await one.run("git status", says(NO))
        assert ".git/config" in one.asked[1].reason


def _plant_fsmonitor(at: Path, environ: dict[str, str]) -> None:
    subprocess.run(["git", "init", "-q", str(at)], check=True, env=environ)
    with (at / ".git/config").open("a") as file:
        file.write("[core]\n\tfsmonitor = touch ran-it; false\n")


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "cd sub && git status",
        "git -C sub status",
        "ls && /usr/bin/git diff",
        "git --git-dir=.git --work-tree . status",
        "cd bare && git --work-tree . status",
        "cd tree && git status",
    ],
)
async def test_git_runs_nothing_of_an_untrusted_repository_unasked(command: str) -> None:
    """Outside of a sandbox, and with nothing untrusted read in the conversation so far."""
    async with scene("local") as one:
        home = one.home
        for folder in (home.cwd, home.cwd / "sub"):
            _plant_fsmonitor(folder, home.environ)
        (home.cwd / "bare").mkdir()
        for name in ("HEAD", "objects", "refs", "config"):
            (home.cwd / ".git" / name).rename(home.cwd / "bare" / name) if "bare" in command else None
        if "cd tree" in command:
            (home.cwd / "tree").mkdir()
            (home.cwd / ".git").rename(home.cwd / "elsewhere")
            (home.cwd / "tree/.git").write_text("gitdir: ../elsewhere\n")
        said = await one.run(command)
        assert "Not allowed" in said, said
        assert not [*home.cwd.rglob("ran-it")]


@pytest.mark.needs("git")
async def test_a_hook_of_an_untrusted_repository_runs_with_a_yes_only() -> None:
    async with scene("local") as one:
        subprocess.run(["git", "init", "-q", str(one.home.cwd)], check=True, env=one.home.environ)
        hook = one.home.cwd / ".git/hooks/pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ntouch ran-it\n")
        hook.chmod(0o755)
        assert "Not allowed" in await one.run("git -c user.name=a -c user.email=a@b commit -q --allow-empty -m y")
        assert not (one.home.cwd / "ran-it").exists()


@pytest.mark.needs("git")
async def test_git_in_ones_own_or_a_harmless_repository_needs_no_question() -> None:
    async with scene("local", trusted=True) as one:
        _plant_fsmonitor(one.home.cwd, one.home.environ)
        assert "exit code 0" in await one.run("git status")
    async with scene("local") as one:
        subprocess.run(["git", "init", "-q", str(one.home.cwd)], check=True, env=one.home.environ)
        assert "exit code 0" in await one.run("git status")
    async with scene("local") as one:
        _plant_fsmonitor(one.home.cwd, one.home.environ)
        assert "exit code 0" in await one.run("git status", says(ONCE))
        assert "let git run programs" in one.asked[0].reason


REDIRECT = "#!/bin/sh\nprintf '[remote \"origin\"]\\n\\tpushurl = https://evil.example/x\\n' >> .git/config\n"
LED_ELSEWHERE = [
    ("export GIT_EXTERNAL_DIFF={work}/evil", "git config user.name x && git diff"),
    ("export PATH={work}/bin:$PATH", "git config user.name x"),
    ("git() {{ ./evil; }}; export -f git", "git config user.name x"),
    ("export GIT_SSH_COMMAND={work}/evil", "git submodule add ssh://h.example/x sub"),
    ("true", "GIT_SSH_COMMAND={work}/evil git submodule add ssh://h.example/x sub"),
    ("true", "PATH={work}/bin:$PATH; git config user.name x"),
    ("true", "echo $'a\\'' ; PATH={work}/bin:$PATH git config user.name x #'"),
    ("true", "true # '\nPATH={work}/bin:$PATH git config user.name x # '"),
    ("true", "true <<E\n'\nE\nPATH={work}/bin:$PATH git config user.name x; true '"),
    ("true", "git -c protocol.ext.allow=always submodule add 'ext::{work}/evil' sub"),
    ("true", "for PATH in {work}/bin; do git config user.name x; done"),
    ("true", "for PATH in {work}/bin:/usr/bin; do true; done; git config user.name x"),
    ("true", "select PATH in {work}/bin; do git config user.name x; done <<< 1"),
    ("true", "git() {{ ./evil; }}; git config user.name x"),
    ("true", "echo ${{PATH::=x}}; : ${{PATH[0]:={work}/bin}}; git config user.name x"),
    ("true", "echo {work}/bin | {{ read PATH; git config user.name x; }}"),
    ("true", "printf -v PATH {work}/bin; git config user.name x"),
    ("true", "PA\\\nTH={work}/bin; git config user.name x"),
    ("true", "true & PATH={work}/bin git config user.name x"),
    ("true", "if true; then PATH={work}/bin; fi && git config user.name x"),
]


@pytest.mark.needs("git")
@pytest.mark.parametrize(("before", "command"), LED_ELSEWHERE)
async def test_a_yes_to_a_setting_lets_no_other_program_change_the_settings(before: str, command: str) -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        work = one.home.cwd.resolve()
        config = repository(one)
        (work / "a").write_text("a")
        (work / "bin").mkdir()
        for name in ("evil", "bin/git"):
            (work / name).write_text(REDIRECT)
            (work / name).chmod(0o755)
        await one.run(before.format(work=work), says(NO))
        await one.run(command.format(work=work), says(ONCE))
        assert "evil.example" not in config.read_text()


@pytest.mark.needs("git")
@pytest.mark.parametrize("pattern", ["ext*", "ext::sh?-c?.e", "ext[:]*"])
async def test_a_pattern_makes_no_other_address_of_a_file_s_name(pattern: str) -> None:
    """What a pattern stands for is only known when the command runs: an address that lets git run a program."""
    async with scene(trusted=True) as one:
        config = repository(one)
        (one.home.cwd / "ext::sh -c .e").write_text("")
        await one.run(f"git remote add x {pattern}", says(ONCE))
        assert "ext::" not in config.read_text()


@pytest.mark.needs("git")
async def test_exported_variables_stay_after_settings_were_changed() -> None:
    async with scene(trusted=True) as one:
        repository(one)
        await one.run("export KEPT=yes")
        await one.run("git config user.name Ann", says(ONCE))
        assert "yes" in await one.run("echo $KEPT")


@pytest.mark.needs("git")
@pytest.mark.parametrize("name", ["own-hooks/pre-push", "scripts/check"])
async def test_file_tools_do_not_write_what_git_runs_as_hooks(name: str) -> None:
    """The folder that `core.hooksPath` names, and what a link among the hooks leads to: commands change neither."""
    async with scene(trusted=True) as one:
        config = repository(one)
        config.write_text(config.read_text() + "[core]\n\thooksPath = own-hooks\n")
        hook = one.home.cwd / name
        for folder in (hook.parent, one.home.cwd / "own-hooks"):
            folder.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\n")
        hook.chmod(0o755)
        if name.startswith("scripts"):
            (one.home.cwd / "own-hooks/pre-commit").symlink_to("../scripts/check")
        await one.run("true")
        await one.call("write_file", says(NO), path=name, content="#!/bin/sh\ntheirs\n")
        assert "theirs" not in hook.read_text()


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("value", "place"), [("own-hooks # mine", "."), ("~/work/own-hooks", "."), ("own-hooks", "tree")]
)
async def test_a_command_adds_no_hook_to_the_folder_that_a_setting_names(value: str, place: str) -> None:
    """The setting with a comment, by the home, and in a work tree, where it names a folder of that tree."""
    async with scene(trusted=True, workspace="home/work") as one:
        commits(one)
        config, pwned = one.home.cwd / ".git/config", one.home.root / "pwned"
        (one.home.cwd / "own-hooks").mkdir()
        (one.home.cwd / "own-hooks/pre-push").write_text("# mine\n")
        config.write_text(config.read_text() + f"[core]\n\thooksPath = {value}\n")
        await one.run("git worktree add -q tree g", says(NO))
        hook = f"{place}/own-hooks/post-commit"
        await run_program(
            one,
            f"os.makedirs(os.path.dirname({hook!r}), exist_ok=True)\n"
            f"try: open({hook!r}, 'w').write('#!/bin/sh\\ntouch {pwned}\\n'); os.chmod({hook!r}, 0o755)\n"
            "except OSError as error: print(error)",
        )
        call = ["git", "commit", "-q", "--allow-empty", "-m", "x"]
        subprocess.run(call, cwd=one.home.cwd / place, env=one.home.environ, check=True, capture_output=True)
        assert not pwned.exists()


@pytest.mark.needs("git")
@pytest.mark.parametrize("steps", ["at once", "in two commands"])
async def test_a_new_work_tree_has_the_persons_hooks_and_no_others(steps: str) -> None:
    """The setting names a folder in each work tree: what git checks out there is the person's, the rest is not."""
    async with scene(trusted=True) as one:
        commits(one)
        config, own = one.home.cwd / ".git/config", one.home.cwd / "own-hooks"
        own.mkdir()
        (own / "pre-push").write_text("#!/bin/sh\n")
        (own / "off").mkdir()
        (own / "off/pre-commit").write_text("#!/bin/sh\nfalse\n")
        for words in (("add", "."), ("commit", "-q", "-m", "hooks"), ("branch", "-f", "g")):
            subprocess.run(["git", "-C", str(one.home.cwd), *words], check=True, env=one.home.environ)
        config.write_text(config.read_text() + "[core]\n\thooksPath = own-hooks\n")
        make = "subprocess.run('git worktree add -q tree g'.split(), check=True)\n"
        copy = "shutil.copy('tree/own-hooks/off/pre-commit', f'tree/own-hooks/{name}')"
        plant = f"for name in ('post-commit', 'pre-commit'): {copy}"
        plant = f"import shutil\ntry:\n {plant}\nexcept OSError as error: print(error)"
        for text in (make, plant) if steps == "in two commands" else (make + plant,):
            await run_program(one, text)
        names = {one.name for one in (one.home.cwd / "tree/own-hooks").iterdir() if one.suffix != ".held"}
        assert names == {"pre-push", "off"}
        assert (one.home.cwd / "tree/own-hooks/off/pre-commit").exists()


@pytest.mark.needs("git")
@pytest.mark.parametrize("place", ["own/.gitconfig", "own/hooks/pre-push"])
async def test_what_the_persons_own_settings_lead_to_is_kept_in_the_workspace(place: str) -> None:
    """People who keep their dotfiles in a project include them from the settings of the home."""
    async with scene(trusted=True, workspace="home/work") as one:
        commits(one)
        kept = one.home.cwd / place
        kept.parent.mkdir(parents=True)
        kept.write_text("# mine\n")
        text = "[include]\n\tpath = work/own/.gitconfig\n[core]\n\thooksPath = ~/work/own/hooks\n"
        (one.home.home / ".gitconfig").write_text(text)
        write = f"open({place!r}, 'a').write('[core]\\n\\tfsmonitor = x\\n')"
        await run_program(one, f"try: {write}\nexcept OSError as error: print(error)")
        assert "Not allowed" in await one.call("write_file", path=place, content="theirs")
        assert kept.read_text() == "# mine\n"


@pytest.mark.needs("git")
async def test_a_link_that_a_hook_goes_by_is_kept() -> None:
    """The hook is a link to a link: who puts another one in its place decides what runs."""
    async with scene(trusted=True) as one:
        repository(one)
        hooks = one.home.cwd / ".git/hooks"
        hooks.mkdir(exist_ok=True)
        (one.home.cwd / "check").write_text("#!/bin/sh\n")
        (one.home.cwd / "by").symlink_to("check")
        (hooks / "pre-commit").symlink_to("../../by")
        await run_program(one, "os.unlink('by'); open('theirs', 'w').write('theirs'); os.symlink('theirs', 'by')")
        assert (one.home.cwd / "by").readlink() == Path("check")


@pytest.mark.needs("git")
async def test_a_shell_without_a_sandbox_asks_before_it_writes_what_git_runs() -> None:
    async with scene("local", trusted=True) as one:
        config = repository(one)
        config.write_text(config.read_text() + "[core]\n\thooksPath = own-hooks\n")
        (one.home.cwd / "own-hooks").mkdir()
        await one.run("echo theirs > own-hooks/pre-push", says(NO))
        await one.run("echo mine > elsewhere", says(NO))
        assert len(one.asked) == 1 and not (one.home.cwd / "own-hooks/pre-push").exists()


REMOTE_CHANGES = {
    "git remote add up https://x.test/up.git": "url = https://x.test/up.git",
    "git remote set-url origin https://y.test/a.git": "url = https://y.test/a.git",
    "git remote rename origin up": '[remote "up"]',
    "git remote remove origin": "",
    "git config --unset remote.origin.tagOpt": "",
    "git branch -q -u origin/main main": "remote = origin",
}


@pytest.mark.needs("git")
@pytest.mark.parametrize("command", REMOTE_CHANGES)
async def test_every_change_that_a_question_names_is_made_where_the_kernel_keeps_nothing(command: str) -> None:
    async with scene(trusted=True, mechanism="landlock") as one:
        commits(one)
        for words in (
            "remote add origin https://x.test/a.git",
            "config remote.origin.tagOpt --no-tags",
            "update-ref refs/remotes/origin/main HEAD",
        ):
            subprocess.run(["git", "-C", str(one.home.cwd), *words.split()], check=True, env=one.home.environ)
        before = (one.home.cwd / ".git/config").read_text()
        said = await one.run(command, says(ONCE))
        after = (one.home.cwd / ".git/config").read_text()
        assert "exit code 0" in said and REMOTE_CHANGES[command] in after and after != before, said
        if not REMOTE_CHANGES[command]:
            assert len(after) < len(before)
        assert [*(one.home.cwd / ".git").glob("*.held")] == []


@pytest.mark.needs("git")
@pytest.mark.parametrize("heading", ["include", 'includeIf "gitdir:**"'])
@pytest.mark.parametrize("way", ["a program", "a file tool"])
async def test_settings_that_the_repositorys_settings_include_are_kept(way: str, heading: str) -> None:
    """`git config include.path ../.gitconfig` is how projects share settings: git runs what that file says."""
    async with scene(trusted=True) as one:
        config, pwned = repository(one), one.home.root / "pwned"
        config.write_text(config.read_text() + f"[{heading}]\n\tpath = ../.gitconfig\n")
        (one.home.cwd / ".gitconfig").write_text("[alias]\n\tst = status\n")
        text = f"[core]\n\tfsmonitor = touch {pwned}; false\n"
        if way == "a program":
            write = f"try: open('.gitconfig', 'a').write({text!r})\nexcept OSError as error: print(error)"
            await run_program(one, write)
        else:
            await one.call("write_file", says(NO), path=".gitconfig", content=text)
        subprocess.run(["git", "status"], cwd=one.home.cwd, env=one.home.environ, check=False, capture_output=True)
        assert not pwned.exists()


RACER = """
while True:
    try:
        text = open('.git/config').read()
        if 'name = Ann' in text and 'evil' not in text:
            open('.git/config', 'a').write('[remote "origin"]\\n\\tpushurl = https://evil.example/x\\n')
    except OSError:
        pass
"""


@pytest.mark.needs("git")
@pytest.mark.parametrize("mechanism", ["", "landlock"])
async def test_a_process_adds_nothing_to_a_setting_that_is_allowed_beside_it(mechanism: str) -> None:
    """What one command may change all others may: with Landlock alone at once, by mounts once the file is replaced."""
    async with scene(trusted=True, mechanism=mechanism) as one:
        config = repository(one)
        (one.home.cwd / "racer.py").write_text(RACER)
        await one.call("terminal", says(NO), command="python3 racer.py", background=True)
        before = config.read_text()
        said = await one.run("git config user.name Ann; " + "git status; " * 60, says(ONCE))
        assert "end what runs in the background first" in said and config.read_text() == before
        (process,) = one.context.state.processes.list_all()
        await one.call("process", says(NO), action="kill", session_id=process.process_id)
        said = await one.run("git config user.name Ann; " + "git status; " * 60, says(ONCE))
        assert "Ann" in config.read_text() and "evil.example" not in config.read_text(), said


@pytest.mark.needs("git")
async def test_blank_lines_in_settings_cost_little() -> None:
    """A repository that a command makes, with 30 of 256 KB of blank lines: the next session looks for its hooks."""
    async with scene(trusted=True) as one:
        fill = "open('sub/.git/config', 'a').write(chr(10) * 30_000)"
        make = f"subprocess.run(['git', 'init', '-q', 'sub'], check=True)\n{fill}"
        await run_program(one, make)
        one.actor = await one.app.open_session()
        started = time.process_time()
        await one.run("true")
        assert time.process_time() - started < 1


ORDINARY = (
    "git init -q new && git -C new -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m x",
    "git clone -q . copy && git -C copy log -1 --format=%s",
    "git commit -q --allow-empty -m y && git switch -q g && git merge -q main",
    "git worktree add -q tree g && git -C tree commit -q --allow-empty -m z && git worktree remove tree",
    "git -c protocol.file.allow=always clone -q --recurse-submodules . ../work/copy",
)


@pytest.mark.needs("git")
@pytest.mark.parametrize("command", ORDINARY)
async def test_ordinary_work_stays_beside_hooks_of_the_persons_own(command: str) -> None:
    async with scene(trusted=True) as one:
        commits(one)
        (one.home.cwd / ".husky").mkdir()
        hook = one.home.cwd / ".husky/pre-commit"
        hook.write_text("#!/bin/sh\necho hooked >&2\n")
        hook.chmod(0o755)
        config = one.home.cwd / ".git/config"
        config.write_text(config.read_text() + "[core]\n\thooksPath = .husky\n[include]\n\tpath = ../.gitconfig\n")
        (one.home.cwd / ".gitconfig").write_text("[pull]\n\tff = only\n")
        said = await one.run(command, says(NO))
        assert "exit code 0" in said and "[sandbox:" not in said and one.asked == [], said


@pytest.mark.needs("git")
@pytest.mark.parametrize("name", ["$HOME/x", '"$HOME/x"', "~/x"])
async def test_a_line_that_names_the_home_is_one_of_settings(name: str) -> None:
    async with scene(trusted=True) as one:
        config = repository(one)
        await one.run(f"git remote add home {name}", says(ONCE))
        assert re.search(r"url = (~|/.*/home)/x", config.read_text())


@pytest.mark.needs("git")
async def test_hooks_that_global_settings_name_are_kept_in_a_repository_that_a_command_makes() -> None:
    async with scene(trusted=True) as one:
        (one.home.home / ".gitconfig").write_text("[core]\n\thooksPath = .githooks\n")
        (one.home.cwd / "mine/.githooks").mkdir(parents=True)
        (one.home.cwd / "mine/.githooks/pre-commit").write_text("mine")
        make = "os.makedirs('sub/.githooks'); open('sub/.githooks/pre-commit', 'w').write('theirs')"
        await run_program(
            one, f"[subprocess.run(['git', 'init', '-q', n], check=True) for n in ('sub', 'mine')]\n{make}"
        )
        await one.run("true", says(NO))
        assert not (one.home.cwd / "sub/.githooks/pre-commit").exists()
        assert (one.home.cwd / "mine/.githooks/pre-commit").read_text() == "mine"


EDITED = "https://evil.example/x"


@pytest.mark.needs("git")
@pytest.mark.parametrize("verb", ["config -e", "config --edit --local", "config --edi", "commit --allow-empty"])
async def test_no_editor_runs_beside_a_change(verb: str) -> None:
    async with scene(trusted=True) as one:
        subprocess.run(["git", "init", "-q", str(one.home.cwd)], check=True, env=one.home.environ)
        subprocess.run(["git", "-C", str(one.home.cwd), "config", "user.email", "a@b.test"], check=True)
        (one.home.cwd / "e.txt").write_text(f"printf '[remote \"origin\"]\\n\\tpushurl = {EDITED}\\n' >> .git/config\n")
        await one.run("export GIT_EDITOR=vim", says(NO))
        command = f"git config user.name Bob && git {verb}"
        said = await one.call("terminal", says(ONCE), command=command, background=True, pty=True)
        found = re.search(r"proc_\w+", said)
        for data in (":!sh e.txt\r", "\r", ":qa!\r", ":q!\r") if found else ():
            await asyncio.sleep(0.3)
            await one.call("process", says(NO), action="write", session_id=found[0], data=data)
        await one.run("true", says(NO))
        await one.app.close_session(one.actor)
        assert EDITED not in (one.home.cwd / ".git/config").read_text()


@pytest.mark.needs("git")
@pytest.mark.parametrize("command", ["git config -e", "git config --local --edit", "git config edit"])
async def test_an_editor_of_settings_is_refused_with_the_way_to_change_one(command: str) -> None:
    async with scene(trusted=True) as one:
        repository(one)
        said = await one.run(command, says(ONCE))
        assert "Not allowed" in said and "git config NAME VALUE" in said and one.asked == []


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "beside",
    [
        "git commit -q --allow-empty -m x",
        "git commit -q --allow-empty --message=x",
        "git config --list --show-origin",
        "git config --get user.name",
        "git remote -v",
        "git status -sb",
        "git log --oneline -1",
    ],
)
async def test_what_only_reads_or_records_still_stands_beside_a_change(beside: str) -> None:
    async with scene(trusted=True) as one:
        subprocess.run(["git", "init", "-q", str(one.home.cwd)], check=True, env=one.home.environ)
        words = ("git", "-C", str(one.home.cwd), *AUTHOR, "commit", "-q", "--allow-empty", "-mx")
        subprocess.run(words, check=True, env=one.home.environ)
        command = f"git config user.email a@b.test && git config user.name 'edit -e Bob' && {beside}"
        assert "exit code 0" in await one.run(command, says(ONCE))
        assert len(one.asked) == 1 and "edit -e Bob" in (one.home.cwd / ".git/config").read_text()


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "beside",
    [
        "git commit --allow-empty",
        "git commit -m x -e",
        "git commit --allow-empty --template=x",
        "git log -p",
        "git log --output=x",
        "git status --no-such-option",
        "git remote update",
        "git remote -v update",
        "git remote prune origin",
        "git config --get-color color.x red --edi",
        "git add -i",
        "git difftool",
    ],
)
async def test_what_may_do_more_leaves_the_settings_closed(beside: str) -> None:
    async with scene(trusted=True) as one:
        config = repository(one)
        before = config.read_text()
        await one.run(f"git config user.name Bob; {beside}", says(NO))
        assert config.read_text() == before
        assert not [asked for asked in one.asked if "settings of the repository" in asked.reason]


@pytest.mark.needs("git")
async def test_settings_of_git_that_are_a_link_into_the_workspace_are_read() -> None:
    """People keep their dotfiles in a project."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        (one.home.cwd / "gitconfig").write_text("[user]\n\tname = Bob\n")
        (one.home.home / ".gitconfig").symlink_to(one.home.cwd / "gitconfig")
        assert "Bob" in await one.run("git config user.name", says(NO))
