"""What is opened outside of the sandbox: nothing without a yes that names it, and nothing of it without a mark."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from hermes.core.encoding import to_json
from hermes.core.events import ApprovalAsked
from hermes.core.messages import TextPart
from hermes.core.outcomes import AnswerScope
from hermes.testing.script import Call
from hermes.tools.builtin.terminal import terminal
from hermes.tools.permissions.policy_gate import ApprovalPolicy, PolicyGate
from hermes.tools.processes import BackgroundProcess
from tests.attack.obedient_scene import ALWAYS, MECHANISM, NO, ONCE, SESSION, Scene, says, scene
from tests.attack.test_person_isolation import ANNA, order, stage

OFF = {"approvals": {"mode": "off", "off_in": "sandbox"}}
UNSEEN = """python3 -c 'import os; print(open(os.environ["HOME"] + "/Docs/b").read())'"""


def fill_app(one: Scene) -> Path:
    """Make a folder of a program's in the home."""
    one.open_tmp()
    app = one.home.home.resolve() / ".config/app"
    app.mkdir(parents=True)
    (app / "mine").write_text("mine")
    return app


def fill_project(one: Scene, files: int = 0) -> Path:
    """Make a repository beside the workspace, with keys and so many more names of files.

    The first five of each thousand are files of their own. The rest are second names, which are looked at as files are
    and made and removed many times faster; the files made after thousands were removed are slow, too.
    """
    one.open_tmp()
    project = one.home.cwd.parent.resolve() / "other"
    (project / ".git").mkdir(parents=True)
    (project / "deep").mkdir()
    (project / "deep/b").write_text("mine")
    (project / ".env").write_text("NOTE=plainwords")
    for number in range(files):
        folder, place = f"{project}/data{number // 1_000}", number % 1_000
        if place == 0:
            os.mkdir(folder)
        if place < 5:
            os.close(os.open(f"{folder}/{number}", os.O_CREAT))
        else:
            os.link(f"{folder}/{number - place}", f"{folder}/{number}")
    return project


def fill_docs(one: Scene) -> Path:
    """Make a folder of the person's."""
    one.open_tmp()
    docs = one.home.home.resolve() / "Docs"
    docs.mkdir()
    (docs / "b").write_text("text of b")
    return docs


def words_of(asked: ApprovalAsked) -> str:
    return " ".join((asked.reason, asked.once_covers, asked.session_covers, asked.no_covers))


@pytest.mark.parametrize(
    "command",
    ["echo x > ~/.config/app/x", "rm ~/.config/app/mine", "mkdir -p ~/.volta/bin && echo x > ~/.volta/bin/node"],
)
async def test_dot_folders_are_asked_about_where_no_command_is(command: str) -> None:
    async with scene(trusted=True, config=OFF) as one:
        app = fill_app(one)
        await one.run(command, says(NO))
        assert os.listdir(app) == ["mine"] and not (one.home.home / ".volta").exists()


async def test_a_question_about_a_dot_folder_names_what_a_yes_opens() -> None:
    async with scene(trusted=True) as one:
        app = fill_app(one)
        (one.home.cwd / "w.py").write_text("import os; open(os.environ['HOME'] + '/.config/app/mine', 'w')")
        await one.run("echo x > ~/.config/app/x; python3 w.py", says(ONCE))
        (asked,) = one.asked
        assert (app / "mine").read_text() == "mine" or (
            f"all of {app}" in asked.reason and f"{app}/*" in words_of(asked)
        )


async def test_a_question_without_an_answer_for_the_session_names_what_a_yes_opens() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        (one.home.cwd / "t").mkdir()
        for number in range(5_100):  # so many may be run that no answer for the session is offered
            (one.home.cwd / f"t/{number}.py").touch()
        (one.home.cwd / "w.py").write_text("open('../other/top', 'w')")
        await one.run("make -C t; rm -rf ../other/deep/x; echo x > ../other/deep/new; python3 w.py", says(ONCE))
        asked = one.asked[0]
        assert not (project / "top").exists() or f"all of {project}" in asked.reason


@pytest.mark.parametrize("files", [0, 50_010])
async def test_a_yes_to_write_in_a_project_shows_no_keys(files: int) -> None:
    """The small one fails in Landlock alone, the large one in bubblewrap too."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one, files)
        (one.home.cwd / "r.py").write_text("print(open('../other/.env').read())")
        said = await one.run("echo x > ../other/new; python3 r.py", says(ONCE))
        # Landlock gives a folder whole or not at all: beside a key in it nothing new is made.
        assert files or (project / "new").exists() or MECHANISM == "landlock"
        assert "plainwords" not in said


async def test_a_yes_to_read_a_project_shows_no_keys_to_file_tools() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        fill_project(one)
        await one.run("cat ../other/deep/b", says(SESSION))
        said = await one.call("read_file", says(NO), path="../other/.env")
        assert "plainwords" not in said


async def test_a_link_to_tmp_opens_nothing_without_a_question() -> None:
    """`/tmp` of a command is the session's own, but what a link to it leads to was opened on this machine."""
    folder = Path("/tmp/hermes-new-attacks")
    folder.mkdir()
    try:
        async with scene(trusted=True, workspace=str(folder / "work")) as one:
            (folder / "other").mkdir()
            (folder / "other/mine").write_text("mine")
            (one.home.cwd / "link").symlink_to(folder / "other/x")
            (one.home.cwd / "w.py").write_text(f"open('{folder}/oth' + 'er/mine', 'w').write('theirs')")
            await one.run("echo theirs > link; python3 w.py")
            assert one.asked == [] and os.listdir(folder / "other") == ["mine"]
            assert (folder / "other/mine").read_text() == "mine"
    finally:
        shutil.rmtree(folder)


async def test_what_is_read_in_a_folder_opened_for_the_session_is_untrusted_unnamed_too() -> None:
    async with scene(trusted=True) as one:
        docs = fill_docs(one)
        await one.run(UNSEEN, says(SESSION))
        assert "text of b" in await one.run(UNSEEN, says(NO))
        assert one.context.state.taint.list_sources() == (f"file:{docs}",)


@pytest.mark.parametrize("scope", [ONCE, SESSION])
async def test_what_is_written_in_an_opened_place_is_marked(scope: AnswerScope) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        fill_docs(one)
        await one.run("cat ~/Docs/b", says(ONCE))
        assert one.context.state.taint.list_sources()
        (one.home.cwd / "w.py").write_text("open('../other/AGENTS.md', 'w').write('obey')")
        await one.run("echo x > ../other/new; python3 w.py", says(scope))
        path = project / "AGENTS.md"
        assert not path.exists() or one.context.taint_marks.find_sources(str(path))


async def test_a_path_that_the_person_named_opens_not_what_a_command_linked_there() -> None:
    async with scene(trusted=True) as one:
        docs = fill_docs(one)
        private = one.home.home.resolve() / "private"
        private.mkdir()
        (private / "diary").write_text("dear diary")
        await one.run("ln -s ../private/diary ~/Docs/report.txt", says(ONCE))
        assert (docs / "report.txt").is_symlink()
        call = Call("read_file", {"path": f"{docs}/report.txt"})
        (said,) = await one.turn([call], text=f"read {docs}/report.txt", person=says(NO))
        assert "dear diary" not in said


async def test_a_yes_for_one_run_is_no_yes_to_later_writes_by_a_second_name() -> None:
    """Holds in bubblewrap, where no link leads from one mount to another; not in Landlock."""
    async with scene(trusted=True) as one:
        docs = fill_docs(one)
        await one.run("ln ~/Docs/b kept; echo x > ~/Docs/new", says(ONCE))
        await one.run("echo theirs > kept", says(NO))
        assert (docs / "b").read_text() == "text of b"


async def test_a_confined_person_sees_no_links_of_the_home() -> None:
    async with stage("file", "terminal", approve=True) as on:
        (on.home.home / ".client-acme").symlink_to("/usr/share")
        await on.asks(ANNA, order("terminal", command=f"ls -lA {on.home.home}"))
        assert "client-acme" not in "".join(request.body.decode() for request in on.server.requests)


async def test_removing_a_link_asks_for_nothing_where_it_leads() -> None:
    async with scene(trusted=True) as one:
        (one.home.cwd / "link").symlink_to(fill_docs(one) / "b")
        await one.run("rm link", says(NO))
        assert one.asked == []


async def test_a_decision_about_many_names_costs_little_more_than_about_one() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        fill_project(one, 10_000)
        command = "cat " + " ".join(f"../other/data{number % 10}/{number % 10}00{number // 10}" for number in range(45))
        base = await measure(one, "cat ../other/deep/b")
        assert await measure(one, command) < 20 * base


@pytest.mark.parametrize(
    "command",
    [
        "rm " + " ".join(f"a{number}" for number in range(1_700)),
        "touch " + " ".join(f"../q{number}/a" for number in range(990)),
        'cd "' + "$UNK/" * 1_000 + 'x"; rm ' + " ".join(f"{number:03}" for number in range(1_000)),
    ],
)
async def test_a_line_of_ten_thousand_characters_is_judged_soon(command: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        fill_project(one)
        one.open_tmp()
        started = time.process_time()
        await one.run(f"false && {command}", says(NO))
        assert one.asked and time.process_time() - started < 5


async def measure(one: Scene, command: str) -> float:
    """Return the least CPU time of a command that is refused."""
    found: list[float] = []
    for _ in range(4):
        started = time.process_time()
        await one.run(command)
        found.append(time.process_time() - started)
    return min(found)


@pytest.mark.parametrize("command", ["sed 's/^KEY=//' a", "echo //; cat a=// @//", "cp a //x/../y"])
async def test_a_path_that_begins_with_two_slashes_is_judged(command: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        (one.home.cwd / "a").write_text("KEY=x")
        assert "exit code" in await one.run(command, says(NO))
        layout = one.context.backend.current_layout()
        assert layout is not None and layout.access_of("//") is layout.access_of("/")


async def test_a_folder_directly_in_the_home_is_not_removed() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        reports = one.home.home.resolve() / "reports"
        await one.run("mkdir -p ~/reports && echo x > ~/reports/a", says(SESSION))
        for command in ("rm -r ~/reports", "echo x > ran; rm -rf ~/reports"):
            assert "which is never opened to commands" in await one.run(command, says(SESSION))
        assert (reports / "a").exists() and not (one.home.cwd / "ran").exists()


async def test_a_missing_source_is_not_asked_about_as_a_place_to_write() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        for command in ("cp ~/nosuch/a .", "cp ../nosuch/a .", "../nosuch/run --version"):
            await one.run(command, says(NO))
        assert not any("write" in asked.subject + asked.session_covers for asked in one.asked)


async def test_a_link_of_a_start_file_is_not_asked_about() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        (one.home.cwd / ".git").mkdir()
        (one.home.cwd / "vimrc").write_text("mine")
        (one.home.home / ".vimrc").symlink_to(one.home.cwd / "vimrc")
        await one.run("echo theirs >> vimrc", says(SESSION))
        assert (one.home.cwd / "vimrc").read_text() == "mine" and one.asked == []


def fill_repository(one: Scene) -> Path:
    """Make a real repository beside the workspace, with changes that were not committed."""
    one.open_tmp()
    project = one.home.home.resolve() / "code/other"
    (project / "part").mkdir(parents=True, exist_ok=True)
    run_git(project, "init", "-q", "-b", "main")
    (project / "mine").write_text("first")
    (project / "part/a").write_text("a")
    run_git(project, "add", ".")
    run_git(project, "commit", "-qm", "x")
    (project / "mine").write_text("precious")
    (project / "untracked").write_text("precious")
    return project


def run_git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.test")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


LOSING = [
    ("work", "rm -rf $(ls -d ../other/*)"),
    ("work", "ls -d ../other/* | xargs rm -rf"),
    ("work", "cd ../other && git reset --hard"),
    ("work", "cd ../other && git clean -fdx"),
    ("work", "cd ../other && git restore ."),
    ("work", "cd ../other && git checkout main -- ."),
    ("work", "cd ../other && git switch --discard-changes main"),
    ("work", "git --git-dir=../other/.git --work-tree=../other checkout -f ."),
    ("work", "GIT_DIR=../other/.git GIT_WORK_TREE=../other git reset --hard"),
    ("other/part", "git reset --hard"),
    ("other/part", "git checkout -f"),
    ("other/part", "git restore :/"),
    ("other/part", "git clean -fdx .."),
]


def read_all(folder: Path) -> dict[str, str]:
    """Return the texts of all files of a folder but git's own, by their paths."""
    found = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(folder)): path.read_text() for path in found}


async def check_nothing_is_lost(one: Scene, command: str, project: Path, setup: str = "") -> None:
    """Open a project to be written, and run a command to which a person says no when it is asked about: after an undo
    all is as it was.
    """
    await one.run(f"echo x > {project}/new" + (f"; {setup}" if setup else ""), says(SESSION))
    before, asked = read_all(project), len(one.asked)
    await one.run(command, says(NO))
    if len(one.asked) == asked:
        await one.app.session_undo(one.actor).undo_turns()
    assert read_all(project) == before


@pytest.mark.needs("git")
@pytest.mark.parametrize(("work", "command"), LOSING)
async def test_what_a_command_loses_in_an_opened_folder_comes_back(work: str, command: str) -> None:
    async with scene(trusted=True, workspace=f"home/code/{work}") as one:
        await check_nothing_is_lost(one, command, fill_repository(one))


LED = [
    "cd ../ot* && rm -rf part",
    "pushd ../ot* && rm -rf part",
    "rm -rf ../ot*/part",
    "CDPATH=..; cd other && rm -rf part",
    "CDPATH=..; cd other; git reset --hard",
    'read C"D"PATH <<< ..; cd other && rm -rf part',
    "HOME=..; cd ~/other && rm -rf part",
    "OLDPWD=../other; cd ~- && rm -rf part",
    "cd -P link/.. && rm -rf other/part",
    "shopt -s cdable_vars; other=../other; cd other && rm -rf part",
    "X=1 cd ../other; git reset --hard",
    "X=1 pushd ../other; rm -rf part",
    "time cd ../other; git reset --hard",
    "cd() { builtin cd ../other; }; cd .; git reset --hard",
    "if false; then cd() { :; }; fi; cd ../other; rm -rf part",
    "bash -c 'if false; then function cd { :; }; fi; cd ../other; git reset --hard'",
    "trap 'cd ../other' DEBUG; true; git reset --hard",
    "source e.sh; git reset --hard",
    ". ./e.sh; git reset --hard",
    'export "G"IT_DIR=../other/.git "G"IT_WORK_TREE=../other; git reset --hard',
    'env "G"IT_DIR=../other/.git "G"IT_WORK_TREE=../other git reset --hard',
    "GIT\\\n_DIR=../other/.git GIT_WORK\\\n_TREE=../other git reset --hard",
    "ln -s ../other here; rm -rf here/part",
    "git -C l* reset --hard",
    # What no text tells: `..` behind links, links that programs make, folders that are not entered, shells that read.
    "cd link/.. && rm -r part",
    "rm -r link/../part",
    "echo theirs > link/../mine",
    "cp -a link here; rm -rf here/part",
    "git mv link here; rm here/mine",
    'python3 -c \'import os; os.symlink("../other", "here")\'; cp t here/mine',
    "cd nosuch; cp t ../other/mine",
    "false && cd src; cd ../other; rm mine",
    "declare -n r=C''DPATH; r=..; cd other; rm -r part",
    "$(cat e.sh); rm -r part",
    "bash --rcfile e.sh -i -c 'rm -r part'",
    "coproc { cd ../other; rm -r part; }; wait",
    "git -C ../other checkout -- mine",
    "git -C ../other rm -qf mine",
    "gzip ../other/mine",
    "python3 -c 'import shutil; shutil.rmtree(\"../other/part\")'",
]


@pytest.mark.needs("git")
@pytest.mark.parametrize("command", LED)
async def test_a_loss_in_an_opened_folder_comes_back_however_it_is_reached(command: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project, work = fill_repository(one), one.home.cwd
        run_git(work, "init", "-q", "-b", "main")
        (work / "e.sh").write_text("export GIT_DIR=../other/.git GIT_WORK_TREE=../other; cd ../other")
        (work / "link").symlink_to("../other/part" if "-P" in command or "/.." in command else "../other")
        (work / "t").write_text("theirs")
        run_git(work, "add", ".")
        run_git(work, "commit", "-qm", "x")
        await check_nothing_is_lost(one, command, project)


SHELL_PATTERNS = [
    "rm -r ../othe[[:lower:]]/part",
    "rm -r src ../othe[[:lower:]]/part",
    "rm -r src ../othe[[=r=]]/part",
    "rm -r src ../othe[[.r.]]/part",
    "rm -r src ../[^w]*/part",
    "rm -r src ../**/part",
    "rm -r src ../othe[][:lower:]]/part",
    "sh -c 'rm -r src ../othe[[:lower:]]/part'",
    "bash -O nocaseglob -c 'rm -r src ../OTHE[R]/part'",
    "bash -O globstar -c 'rm -r src ../**/part'",
    "BASHOPTS=nocaseglob bash -c 'rm -r src ../OTHE[R]/part'",
]


@pytest.mark.needs("git")
@pytest.mark.parametrize("command", SHELL_PATTERNS)
async def test_a_loss_by_a_pattern_that_only_shells_know_comes_back(command: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        (one.home.cwd / "src").mkdir()
        await check_nothing_is_lost(one, command, fill_repository(one))


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "command",
    [
        "rm ../other/min[[:lower:]]",
        "rm ../other/[^x]ine",
        "echo x > ../other/min[[:lower:]]",
        "tee ../other/min[[=e=]] < new",
        "cp new ../other/min[[:lower:]]",
        "sed -i s/p/q/ ../other/[[:alpha:]]ine",
        "bash -O globstar -c 'rm ../other/**/mine'",
    ],
)
async def test_what_a_pattern_that_only_shells_know_changes_is_undone(command: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_repository(one)
        (one.home.cwd / "new").write_text("new")
        await one.run(f"echo x > {project}/new", says(SESSION))
        before = len(one.asked)
        await one.run(command, says(NO))
        mine = project / "mine"
        assert len(one.asked) == before and not (mine.exists() and mine.read_text() == "precious")
        await one.app.session_undo(one.actor).undo_turns()
        assert mine.read_text() == "precious"


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "command",
    [
        "source e.sh && rm -rf made",
        "cd ma* && rm -rf a",
        "f() { rm -rf made; }; f; git reset --hard",
        "X=1 cd made; git clean -fd",
    ],
)
async def test_a_loss_in_an_unknown_folder_needs_no_question_where_nothing_was_opened(command: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        work = one.home.cwd
        (work / "made/a").mkdir(parents=True)
        (work / "made/a/b").write_text("a")
        (work / "e.sh").write_text("true")
        run_git(work, "init", "-q", "-b", "main")
        run_git(work, "commit", "-q", "--allow-empty", "-mx")
        await one.run(command, says(NO))
        assert one.asked == [] and not (work / "made/a/b").exists()


@pytest.mark.needs("git")
async def test_a_loss_in_the_workspace_is_not_asked_about_beside_an_opened_place() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        project, work = fill_repository(one), one.home.cwd
        run_git(work, "init", "-q", "-b", "main")
        (work / "a").write_text("a")
        run_git(work, "add", ".")
        run_git(work, "commit", "-qm", "x")
        (work / "build").mkdir()
        await one.run(f"echo x > {project}/new", says(SESSION))
        before = len(one.asked)
        (work / "a").write_text("changed")
        await one.run("git reset --hard && rm -rf build", says(NO))
        assert len(one.asked) == before and (work / "a").read_text() == "a"
        (work / "build").mkdir()
        line = 'export CI=1 && echo "$(date)" && cd build && rm -rf ../bu* && rm -rf /tmp/nosuch'
        await one.run(line, says(NO))
        assert len(one.asked) == before and not (work / "build").exists()


@pytest.mark.needs("git")
async def test_a_work_tree_is_not_forgotten_before_it_can_be_removed() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        run_git(one.home.cwd, "init", "-q", "-b", "main")
        run_git(one.home.cwd, "commit", "-q", "--allow-empty", "-mx")
        run_git(one.home.cwd, "worktree", "add", "-q", "../fix")
        assert "Not allowed" in await one.run("git worktree remove ../fix", says(NO))
        listed = subprocess.run(["git", "worktree", "list"], cwd=one.home.cwd, check=True, capture_output=True)
        assert b"/fix " in listed.stdout


@pytest.mark.parametrize("scope", [SESSION, ALWAYS])
async def test_a_yes_to_one_file_of_the_home_is_none_to_the_rest_of_it(scope: AnswerScope) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        docs, app = fill_docs(one), fill_app(one)
        await one.call("write_file", says(scope), path="~/note.txt", content="x")
        await one.run("echo theirs > ~/Docs/b", says(NO))
        await one.run("echo theirs > ~/.config/app/mine", says(NO))
        await one.call("write_file", says(NO), path="~/.config/app/other", content="theirs")
        kept = (docs / "b").read_text(), (app / "mine").read_text(), os.listdir(app)
        assert kept == ("text of b", "mine", ["mine"])
        assert (one.home.home / "note.txt").read_text() == "x"


async def test_a_yes_to_write_says_that_it_shows_the_folder() -> None:
    async with scene(trusted=True) as one:
        docs = fill_docs(one)
        await one.call("write_file", says(SESSION), path="~/Docs/new", content="x")
        assert f"read and write all of {docs}" in one.asked[0].reason
        assert "text of b" in await one.run("grep -r . ~/Docs", says(NO))


async def test_a_question_that_opens_more_is_another_question() -> None:
    """By its fingerprint an answer that was given meanwhile is found after a crash."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        (project / ".env").unlink()
        (project / ".git").rmdir()
        gate, call = PolicyGate(ApprovalPolicy()), {"command": "cat ../other/deep/b"}
        before = gate.decide_call(terminal, call, one.context)
        (project / ".git").mkdir()
        after = gate.decide_call(terminal, call, one.context)
        assert before.opened != after.opened and before.fingerprint != after.fingerprint


WAITS = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\n"


async def start_reader(one: Scene, program: str, **more: object) -> BackgroundProcess:
    """Start a process that may read ~/Docs, and works once its turn is over."""
    fill_docs(one)
    (one.home.cwd / "w.py").write_text(WAITS + program)
    await one.call("terminal", says(ONCE), command="python3 w.py ~/Docs/b", background=True, **more)
    (process,) = one.context.state.processes.list_all()
    assert process.exit is None
    return process


async def let_end(one: Scene, process: BackgroundProcess) -> None:
    (one.home.cwd / "go").write_text("")
    assert await process.wait_for_end(20)


@pytest.mark.parametrize("ends", ["a call", "the session"])
async def test_what_a_process_writes_later_beside_what_it_read_is_marked(ends: str) -> None:
    async with scene(trusted=True) as one:
        process = await start_reader(one, "import sys; open('AGENTS.md', 'w').write(open(sys.argv[1]).read())")
        marks, path = one.context.taint_marks, one.home.cwd.resolve() / "AGENTS.md"
        assert marks.find_sources(str(path))  # whatever happens to Hermes meanwhile
        await let_end(one, process)
        if ends == "a call":
            await one.call("todo", says(NO), todos=[])
        else:
            await one.actor.close()
        assert path.read_text() == "text of b" and marks.find_sources(str(path))
        assert ends != "a call" or not marks.find_sources(str(path.with_name("w.py")))


@pytest.mark.parametrize("action", ["log", "poll", "wait"])
async def test_what_a_process_prints_later_of_an_opened_place_is_untrusted(action: str) -> None:
    async with scene(trusted=True) as one:
        process = await start_reader(one, "import sys; print(open(sys.argv[1]).read())")
        one.context.state.taint.restart_from([])
        await let_end(one, process)
        said = await one.call("process", says(NO), action=action, session_id=process.process_id)
        assert "text of b" in said and "<untrusted" in said


async def test_what_a_process_is_watched_for_is_as_untrusted_as_its_output() -> None:
    async with scene(trusted=True) as one:
        program = "import sys; print(open(sys.argv[1]).read())"
        process = await start_reader(one, program, watch_patterns=["text of"], notify_on_complete=True)
        await let_end(one, process)
        await one.turn()
        rows = await one.app.services.store.messages.read(one.actor.session_id)
        parts = (part for row in rows for part in row.message.parts)
        (said,) = (one for one in parts if isinstance(one, TextPart) and "printed: text of b" in one.text)
        assert "<untrusted" in said.text
        assert said.provenance is not None and said.provenance.is_untrusted


async def test_a_session_stays_in_no_folder_that_its_next_command_does_not_see() -> None:
    async with scene(trusted=True) as one:
        fill_docs(one)
        said = await one.run("cd ~/Docs && ls", says(ONCE))
        assert "is hidden from it" in said
        assert str(one.home.cwd.resolve()) in await one.run("pwd", says(NO))
        await one.run("cd ~/Docs && ls", says(SESSION))
        assert "Docs" in await one.run("pwd", says(NO))


@pytest.mark.parametrize("scope", [NO, ONCE, SESSION, ALWAYS])
async def test_a_name_that_is_no_text_ends_no_turn(scope: AnswerScope) -> None:
    async with scene(trusted=True) as one:
        docs = os.fsencode(fill_docs(one))
        folder, inside = docs + b"/\xff", os.fsencode(one.home.cwd) + b"/\xff"
        os.mkdir(folder)
        os.mkdir(inside)
        (one.home.cwd / "link").symlink_to(os.fsdecode(folder))
        (one.home.cwd / "inside").symlink_to(os.fsdecode(inside))
        Path(os.fsdecode(folder), "odd").write_text("title\nodd")
        said = [
            await one.call("read_file", says(scope), path="link/odd"),
            await one.call("patch", says(scope), path="link/odd", old_string="title", new_string="titel"),
            await one.call("write_file", says(scope), path="link/new", content="x"),
            await one.run("cat link/odd; echo x > link/more", says(scope)),
        ]
        assert (scope is NO) == ("Not allowed" in said[0]) and "could not judge" not in "".join(said)
        assert "Created" in await one.call("write_file", says(NO), path="inside/new", content="x")
        assert "new" in await one.run("echo x > inside/more; cd inside && ls", says(NO))
        assert to_json(one.events)


@pytest.mark.parametrize("busy", [False, True], ids=["alone", "beside a process"])
@pytest.mark.parametrize(
    ("link", "target", "name"), [(".bashrc", "bashrc", "bashrc"), (".config/nvim", "nvim", "nvim/lua/a.lua")]
)
async def test_what_a_start_file_leads_to_is_kept_in_what_is_opened(
    link: str, target: str, name: str, *, busy: bool
) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        home = one.home.home.resolve()
        dotfiles = home / "dotfiles"
        (dotfiles / name).parent.mkdir(parents=True)
        (dotfiles / name).write_text("mine")
        (home / link).parent.mkdir(exist_ok=True)
        (home / link).symlink_to(dotfiles / target)
        (one.home.cwd / "w.py").write_text(
            f"at = '../../dot' + 'files/'\nopen(at + 'new', 'w').write('x')\nopen(at + '{name}', 'w').write('theirs')"
        )
        if busy:
            await one.call("terminal", says(NO), command="sleep 60", background=True)
        await one.run("echo x > ~/dotfiles/a; python3 w.py", says(ONCE))
        assert (dotfiles / "new").exists() and (dotfiles / name).read_text() == "mine"


async def test_a_question_about_a_patch_names_every_file_that_a_yes_changes() -> None:
    """Of several files in one folder outside of the workspace the first is named alone, and once covers all."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        project = fill_project(one)
        (project / "deploy.py").write_text("mine\n")
        patch = f"*** Add File: {project}/a.md\n+x\n*** Update File: {project}/deploy.py\n-mine\n+theirs"
        await one.turn([Call("patch", {"mode": "patch", "patch": patch})], person=says(ONCE))
        assert (project / "deploy.py").read_text() == "theirs\n"
        assert all("deploy.py" in shown_for_a_yes(asked) for asked in one.asked)


def shown_for_a_yes(asked: ApprovalAsked) -> str:
    """What a person reads before a yes; what a no covers is not among it."""
    return " ".join((asked.subject, asked.reason, asked.once_covers, asked.session_covers))


async def test_a_session_goes_on_when_what_was_opened_is_gone() -> None:
    async with scene() as one:
        docs = fill_docs(one)
        await one.run(f"echo mine > {docs}/new", says(SESSION))
        shutil.rmtree(docs)
        assert "here" in await one.run("cat b 2>/dev/null; echo here", says(NO))
        assert str(docs) in await one.run(f"echo mine > {docs}/new", says(NO))


@pytest.mark.parametrize(
    "command",
    ["cp b c {docs}/", "cp *b src/c {docs}", "mv b {docs}; cp src/c {docs}/", "cp -r src/. {docs}", "cp -t {docs} b c"],
)
async def test_what_is_copied_into_an_opened_folder_is_undone(command: str) -> None:
    """The words of a command name the folder alone: what they replace and add in it is theirs all the same."""
    async with scene(trusted=True) as one:
        docs = fill_docs(one)
        for path in ("b", "c", "src/b", "src/c"):
            (one.home.cwd / path).parent.mkdir(exist_ok=True)
            (one.home.cwd / path).write_text("new")
        (docs / "much").mkdir()
        for number in range(2_100):
            os.link(docs / "b", docs / f"much/{number}")
        (docs / "b").unlink()
        (docs / "b").write_text("text of b")
        before = {path.name: path.read_text() for path in docs.iterdir() if path.is_file()}
        await one.run(command.format(docs=docs), says(SESSION))
        assert (docs / "b").read_text() == (docs / "c").read_text() == "new"
        await one.app.session_undo(one.actor).undo_turns()
        assert {path.name: path.read_text() for path in docs.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("command", ["mv {docs}/*.jpg .", "rm {docs}/*.jpg"])
async def test_what_a_pattern_takes_out_of_a_folder_is_asked_about_once_and_before(command: str) -> None:
    async with scene(trusted=True) as one:
        docs = fill_docs(one)
        for name in ("p1.jpg", "p2.jpg"):
            (docs / name).write_text(name)
        said = await one.run(command.format(docs=docs), says(ONCE))
        assert len(one.asked) == 1 and f"read and write all of {docs}" in words_of(one.asked[0]), said
        assert [path.name for path in docs.iterdir()] == ["b"], said


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "command",
    [
        "git worktree add -q ../fix",
        "git clone -q . ../fix",
        "python3 -m venv --without-pip ../fix",
        "mkdir -p ../fix/a",
    ],
)
async def test_what_makes_a_folder_beside_the_workspace_has_that_folder_alone_opened(command: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        other = fill_project(one)
        run_git(one.home.cwd, "init", "-q")
        run_git(one.home.cwd, "commit", "-q", "--allow-empty", "-m", "x")
        fix = other.with_name("fix")
        said = await one.run(command, says(SESSION))
        assert f"read and write all of {fix}" in words_of(one.asked[0]), said
        assert len(one.asked) == 1 and os.listdir(fix), said
        said = await one.run(f"touch {fix}/b && ls -A {fix} && touch {other}/new", says(NO))
        assert len(one.asked) == 2 and not (other / "new").exists(), said
        assert "No such" not in await one.run("cd ../fix && touch b", says(NO))
        assert (fix / "b").exists() and len(one.asked) == 2


@pytest.mark.needs("git", "bubblewrap")
@pytest.mark.parametrize("answer", [ONCE, SESSION])
async def test_a_work_tree_beside_the_workspace_is_made_and_removed(answer: AnswerScope) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        fix = one.home.cwd.resolve().with_name("fix")
        run_git(one.home.cwd, "init", "-q")
        run_git(one.home.cwd, "commit", "-q", "--allow-empty", "-m", "x")
        assert "exit code 0" in await one.run("git worktree add -q ../fix", says(answer))
        assert fix.is_dir()
        assert "exit code 0" in await one.run("git worktree remove ../fix", says(answer))
        assert not fix.exists()
