"""What no rule sees is copied: files that git ignores come back whatever way a sandboxed command lost them."""

import os
import subprocess
import time
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.core.events import ApprovalAsked, Notice
from hermes.core.outcomes import AnswerScope
from hermes.testing.script import Call
from tests.attack.obedient_scene import NO, ONCE, Scene, says, scene
from tests.copied_folders import fill_folder
from tests.requirements import require
from tests.tools.permissions.test_losses import seed

pytestmark = pytest.mark.needs("bubblewrap", "git")
KEYS = "NAME=" + "value-of-the-person" * 2 + "\n"
FILES = {
    "data/big.csv": "text of data/big.csv\n",
    "data/deep/more.csv": "more\n",
    "x.log": "text of x.log\n",
    ".env": KEYS,
}
FIX = """
import glob
for name in [*glob.glob("data/**/*.csv", recursive=True), "x.log", ".e" + "nv"]:
    open(name, "w")
"""


def git(work: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=u", "-c", "user.email=u@h", *words], cwd=work, check=True, capture_output=True
    )


def plant(work: Path) -> None:
    """A repository whose branch `other` tracks what the first branch ignores; an archive and a tree of these names."""
    seed(work)
    git(work, "commit", "-qam", "second")
    git(work, "checkout", "-qb", "other")
    for name in FILES:
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("theirs\n")
    git(work, "add", "-f", *FILES)
    git(work, "commit", "-qm", "theirs")
    subprocess.run(["tar", "cf", "theirs.tar", *FILES], cwd=work, check=True)
    (work / "theirs").mkdir()
    subprocess.run(["tar", "xf", "theirs.tar", "-C", "theirs"], cwd=work, check=True)
    git(work, "checkout", "-q", "-")
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    (work / "fix.py").write_text(FIX)
    (work / "Makefile").write_text("clean:\n\trm -rf data .e[n]v x.log\n")
    git(work, "add", "Makefile", "fix.py")
    git(work, "commit", "-qm", "tools")


@pytest.fixture
async def one() -> AsyncIterator[Scene]:
    async with scene(trusted=True) as found:
        fill_folder(found.home.cwd, plant)
        yield found


async def _run(one: Scene, *commands: str, answer: AnswerScope = NO) -> tuple[list[str], list[ApprovalAsked]]:
    """Run commands, a round each; return what they said and what was asked, which is answered with `answer`."""
    asked: list[ApprovalAsked] = []

    def reply(event: ApprovalAsked) -> AnswerScope:
        asked.append(event)
        return answer

    said = await one.turn(*([Call("terminal", {"command": command})] for command in commands), person=reply)
    return said, asked


def read(work: Path) -> dict[str, str | None]:
    return {name: (work / name).read_text() if (work / name).is_file() else None for name in FILES}


LOSING = {
    "git checkout -f other": set(FILES),
    "git checkout other": {"x.log"},
    "git -c user.name=u -c user.email=u@h merge other": {"x.log"},
    "git stash -a": set(FILES),
    "git read-tree -m -u HEAD other || git reset --hard other": set(FILES),
    'for f in data/*.csv .en[v]; do echo x > "$f"; done': {"data/big.csv", ".env"},
    'find data -type f | while read -r f; do echo x > "$f"; done': {"data/big.csv", "data/deep/more.csv"},
    "tar xf theirs.tar": set(FILES),
    "cd theirs && cp -r . ..": set(FILES),
    "rsync -a --exclude=.env theirs/ ./": {"data/big.csv", "data/deep/more.csv", "x.log"},
    "python3 fix.py": set(FILES),
    "make clean": set(FILES),
    "sed -i s/value/other/ .e*": {".env"},
    "tee .e* < notes.md": {".env"},
}


@pytest.mark.parametrize("command", LOSING)
async def test_what_no_rule_sees_comes_back(one: Scene, command: str) -> None:
    work, program = one.home.cwd, command.split(maxsplit=1)[0]
    if program == "rsync":
        require("rsync")
    elif program == "make":
        require("make")
    said, asked = await _run(one, command)
    assert not asked, [event.reason for event in asked]
    lost = {name for name, text in read(work).items() if text != FILES[name]}
    assert lost >= LOSING[command], (lost, said)
    await one.app.session_undo(one.actor).undo_turns()
    assert read(work) == FILES


@pytest.mark.parametrize("command", ["rm -f d/*/*/*/*/*/*/nosuch", "rm -f " + "d/*/*/*/*/*/*/a? " * 40])
async def test_patterns_over_links_in_a_circle_cost_little(one: Scene, command: str) -> None:
    """Eight links to their own folder, and six stars: each star more would take eight times as long, in the gate.

    The shell, which would take as long, never comes to the command.
    """
    (one.home.cwd / "d").mkdir()
    for number in range(8):
        (one.home.cwd / f"d/{number}").symlink_to(".")
    started = time.process_time()
    await _run(one, f"false && {command}")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "command", ["rm .en?", "rm -rf data", "rm .env", "git clean -fdx", "rsync -a --delete theirs/ data/"]
)
async def test_what_a_command_names_asks_all_the_same(one: Scene, command: str) -> None:
    _, asked = await _run(one, command)
    assert asked and read(one.home.cwd) == FILES


async def test_what_the_person_allowed_comes_back(one: Scene) -> None:
    _, asked = await _run(one, "rm -rf data .env x.log", answer=ONCE)
    assert asked and set(read(one.home.cwd).values()) == {None}
    await one.app.session_undo(one.actor).undo_turns()
    assert read(one.home.cwd) == FILES


async def test_ignore_rules_that_change_lose_nothing(one: Scene) -> None:
    """A turn that takes the rules away has not made what they named, and one that adds rules has not deleted it."""
    work = one.home.cwd
    (work / "mine.txt").write_text("mine\n")
    await _run(one, "rm .gitignore", "python3 fix.py")
    await one.app.session_undo(one.actor).undo_turns()
    assert read(work) == FILES and (work / "node_modules/m/i.js").exists() and (work / "build/out.o").exists()
    await _run(one, "echo '*' > .gitignore", "for f in mine* data/*.csv; do echo x > $f; done")
    await one.app.session_undo(one.actor).undo_turns()
    assert read(work) == FILES and (work / "mine.txt").read_text() == "mine\n"


async def test_keys_are_kept_private_and_are_not_shown(one: Scene) -> None:
    home = one.home.hermes
    await _run(one, "python3 fix.py")
    (shown,) = [diff for diff in await one.app.session_undo(one.actor).diff_since() if diff.path == ".env"]
    assert shown.note == "hidden" and not shown.text
    stored = [path for path in (home / "checkpoints").rglob("*") if path.is_file()]
    copies = [path for path in stored if path.name != "lock" and zlib.decompress(path.read_bytes()) == KEYS.encode()]
    assert copies and all(path.stat().st_mode & 0o077 == 0 for path in stored)
    said, _ = await _run(one, f"cat {copies[0]}; ls {home}/checkpoints")
    assert "exit code 0" not in said[0] and copies[0].name not in said[0].replace(str(copies[0]), "")
    assert "kept from commands" in said[0] or "No such file" in said[0] or "Permission denied" in said[0]


LARGE = b"0123456789abcdef" * 70_000


@pytest.fixture
async def small() -> AsyncIterator[Scene]:
    """A session that copies files of a megabyte at most; a larger one lies among the sources, and one in the data."""
    async with scene(trusted=True, config={"checkpoints": {"max_file_mb": 1}}) as found:
        fill_folder(found.home.cwd, plant)
        (found.home.cwd / "big.bin").write_bytes(LARGE)
        (found.home.cwd / "data/big.bin").write_bytes(LARGE)
        (found.home.cwd / "theirs/big.bin").write_text("small\n")
        yield found


@pytest.mark.parametrize(
    "command",
    [
        "echo x > big.bin",
        "cp notes.md big.bin",
        "cp theirs/big.bin .",
        "cp theirs/big.bin data/",
        "mv theirs/big.bin data",
        "dd if=notes.md of=data/big.bin",
        "truncate -s 5 big.bin",
        "sed -i s/0/1/ b*.bin",
        "sort -o big.bin notes.md",
        "rm big.bin",
        "mv big.bin elsewhere",
    ],
)
async def test_a_file_too_large_for_a_copy_asks_by_name(small: Scene, command: str) -> None:
    _, asked = await _run(small, command)
    assert asked and "no copy is kept" in asked[0].reason and "big.bin" in asked[0].reason
    assert (small.home.cwd / "big.bin").read_bytes() == (small.home.cwd / "data/big.bin").read_bytes() == LARGE


async def test_one_question_names_all_files_that_a_command_loses(small: Scene) -> None:
    _, asked = await _run(small, "rm big.bin data/big.bin")
    assert asked and asked[0].reason.count("no copy is kept") == 1
    assert str(small.home.cwd / "big.bin") in asked[0].reason and "data/big.bin" in asked[0].reason


async def test_a_large_file_that_the_turn_made_is_its_own(small: Scene) -> None:
    _, asked = await _run(small, "cp big.bin made.bin", "echo x > made.bin", "cp made.bin data/small.bin")
    assert not asked and (small.home.cwd / "made.bin").read_text() == "x\n"


async def test_undo_deletes_nothing_ignored_that_has_no_copy(small: Scene) -> None:
    await _run(small, "cp big.bin data/made.bin && cp notes.md data/made.txt")
    await small.app.session_undo(small.actor).undo_turns()
    assert (small.home.cwd / "data/made.bin").read_bytes() == LARGE and not (small.home.cwd / "data/made.txt").exists()


@pytest.mark.parametrize(
    "command", ["rm -rf venv", "rm -rf v*", "find venv -delete", "mv venv elsewhere", "rm -rf venv/src"]
)
@pytest.mark.parametrize("bare", [False, True])
async def test_a_repository_in_build_output_asks(one: Scene, command: str, *, bare: bool) -> None:
    inner = one.home.cwd / "venv/src/mine"
    subprocess.run(["git", "init", "-q", *(["--bare"] if bare else []), str(inner)], check=True)
    _, asked = await _run(one, command)
    assert asked and str(inner) in asked[0].reason and (inner / ("HEAD" if bare else ".git/HEAD")).exists()


async def test_build_output_without_a_repository_does_not_ask(one: Scene) -> None:
    (one.home.cwd / "venv/lib").mkdir(parents=True)
    (one.home.cwd / "venv/lib/large.so").write_bytes(LARGE * 10)
    _, asked = await _run(one, "rm -rf venv node_modules", "rm -rf build/")
    assert not asked and not (one.home.cwd / "venv").exists() and not (one.home.cwd / "build").exists()


async def test_many_ignored_files_are_left_out_and_said(one: Scene) -> None:
    work = one.home.cwd
    for folder in range(25):
        (work / f"data/d{folder}").mkdir()
        (work / f"data/d{folder}/0").touch()
        for number in range(1, 1_000):  # second names: a file is a name here, and files of their own take seconds
            os.link(work / f"data/d{folder}/0", work / f"data/d{folder}/{number}")
    await _run(one, "python3 fix.py", "rm -rf src")
    told = [event.text for event in one.events if isinstance(event, Notice) and "git ignores more" in event.text]
    assert len(told) == 1 and "data" in told[0]
    await one.app.session_undo(one.actor).undo_turns()
    assert (work / ".env").read_text() == KEYS and (work / "src/a.py").exists()
    assert sum(1 for _ in work.glob("data/d*/*")) == 25_001


@pytest.mark.parametrize("limits", [{"max_snapshots": 1}, {"max_total_mb": 1}])
async def test_older_copies_that_go_are_said_once_and_the_last_turn_stays(limits: dict[str, int]) -> None:
    async with scene(trusted=True, config={"checkpoints": limits}) as found:
        seed(found.home.cwd)
        (found.home.cwd / "empty.py").write_text("open('noi' + 'se', 'w')")
        path, texts = found.home.cwd / "noise", [os.urandom(300_000) for _ in range(6)]
        for text in texts:
            path.write_bytes(text)
            _, asked = await _run(found, "python3 empty.py")
            assert not asked and path.read_bytes() == b""
        told = [event.text for event in found.events if isinstance(event, Notice) and "Older copies" in event.text]
        assert len(told) == 1
        await found.app.session_undo(found.actor).undo_turns()
        assert path.read_bytes() == texts[-1]


async def test_a_tag_or_a_rule_that_a_turn_adds_ends_no_copies(one: Scene) -> None:
    work = one.home.cwd
    await _run(one, "touch data/CACHEDIR.TAG src/CACHEDIR.TAG; echo src >> .gitignore")
    before = read(work), (work / "src/a.py").read_text()
    await _run(one, "python3 fix.py; for f in src/*; do echo x | tee $f; done")
    assert read(work) != FILES and (work / "src/a.py").read_text() == "x\n"
    await one.app.session_undo(one.actor).undo_turns()
    assert (read(work), (work / "src/a.py").read_text()) == before


async def test_the_last_turn_stays_though_it_takes_more_than_all_may() -> None:
    async with scene(trusted=True, config={"checkpoints": {"max_total_mb": 1}}) as found:
        seed(found.home.cwd)
        texts = {f"noise{number}": os.urandom(300_000) for number in range(5)}
        for name, text in texts.items():
            (found.home.cwd / name).write_bytes(text)
        _, asked = await _run(found, "; ".join(f"cp notes.md {name}" for name in texts))
        assert not asked and not any((found.home.cwd / name).read_bytes() == text for name, text in texts.items())
        await found.app.session_undo(found.actor).undo_turns()
        assert {name: (found.home.cwd / name).read_bytes() for name in texts} == texts


VIDEO = "v" * 1_100_000
BY_PATTERN = """
false; rm video$?
set -- a; rm video$#
(exit 1); : > video$?
shopt -s nocaseglob; rm -f V?DE*
export LC_ALL=C; rm vid??o.mp4
rm -f c/*/*/*/*/*/nosuch vide?1
cd sub && rm -f c/*/*/*/*/*/nosuch ../vide?1
unlink vid[[:alpha:]]o1
mv a vid[[:alpha:]]o1
cp a vid[[:alpha:]]o1
echo x > vid[[:alpha:]]o1
cat a | tee vid[[:alpha:]]o?
rm f* vid[[:alpha:]]o?
echo x | tee f* video?
"""
BEHIND_LINKS = """rm link/../vid1
rm l*/../vid1
cd link && rm ../vid1
cd -P link && cd .. && rm vid1
cd link; cd ../other && rm ../vid1
ln -s sub/deep new; rm new/../vid1
ln -s sub new; rm new/vid1
echo x > link/../vid1
echo x > $PWD/link/../vid1
cp a --target-directory=link/../ && cp a link/../vid1
mv a link/../vid1
cd sub && rm ~-/video1
cd sub; rm $OLDPWD/video1
cd sub; echo x > $OLDPWD/video1
cd sub; read x; rm $x/../video1
cd sub; read x; cd $x/..; rm video1
pushd sub; rm ~1/video1
pushd sub; pushd; rm video1
cd sub; cd other; cd -; rm vid1
CDPATH=sub; cd other && rm vid2
export CDPATH=sub; cd other; rm vid2
"""
BY_FOLDER = """mkdir t && cp a t/video1 && cp -r t/. .
mv put/* .
cp put/video* .
cp -r put/. ./
cp -r put/sub .
rsync -a put/ .
"""


async def _count_questions(one: Scene, command: str) -> int:
    """Run a command where large files are; return how many questions it asked. None of them is lost."""
    cwd = one.home.cwd
    for folder in ("c", "sub/c", "sub/deep", "sub/other", "put/sub"):
        (cwd / folder).mkdir(parents=True)
    for number in range(9):
        (cwd / f"c/{number}").symlink_to(cwd / "c")
        (cwd / f"sub/c/{number}").symlink_to(cwd / "c")
    for name in ("a", "put/video1", "put/sub/vid1", *(f"f{number}" for number in range(520))):
        (cwd / name).write_text("a\n")
    (cwd / "link").symlink_to("sub/deep")
    large = [cwd / name for name in ("video1", "vid\u00e9o.mp4", "sub/vid1", "sub/other/vid2")]
    for path in large:
        path.write_text(VIDEO)
    await one.run(command, says(NO))
    assert all(not one.is_symlink() and one.read_text() == VIDEO for one in large)
    return len(one.asked)


@pytest.mark.parametrize("command", f"{BY_PATTERN}{BEHIND_LINKS}{BY_FOLDER}".strip().splitlines())
async def test_no_large_file_is_lost_whatever_names_it(command: str) -> None:
    async with scene(trusted=True, config={"checkpoints": {"max_file_mb": 1}}) as one:
        assert await _count_questions(one, command) > 0


ORDINARY = """
rm -f a* put/[!s]*
rm sub/../a link/../nosuch
cd sub && ls > list; cd - && rm -f a
cd link && echo x > ../new && cd .. && cp ../a .
x=$(mktemp); echo y > $x; rm $x; echo y > out.$$; rm out.$$
for f in a f1; do cp $f sub/$f; mv sub/$f put/; done; rm put/a
mkdir new && cp -r put/. new/ && cp put/* sub/deep && cp f[0-4]* sub
cat a | while read -r x; do echo y > "out/$x"; done
(CDPATH= cd sub && rm -f nosuch)
"""


@pytest.mark.parametrize("command", ORDINARY.strip().splitlines())
async def test_other_names_in_such_lines_ask_nothing(command: str) -> None:
    async with scene(trusted=True, config={"checkpoints": {"max_file_mb": 1}}) as one:
        assert await _count_questions(one, command) == 0


async def test_many_patterns_in_a_large_folder_lose_nothing() -> None:
    async with scene(trusted=True, config={"checkpoints": {"max_total_mb": 1}}) as one:
        for number in range(20_000):
            (one.home.cwd / f"f{number:05}").write_text("x" * 100)
        await one.run("rm f000?? f001?? f002?? f003?? f093??", says(NO))
        assert len(one.asked) == 1 and (one.home.cwd / "f09350").exists()


async def lose(one: Scene, *commands: str, path: str) -> None:
    """These commands run, a turn each; then a program deletes a file, which nobody is asked about and undo restores."""
    before = (one.home.cwd / path).read_text()
    for command in commands:
        await one.run(command, lambda _: ONCE)
    (one.home.cwd / "lose.py").write_text(f"import os, shutil; os.unlink('{path[:3]}' + '{path[3:]}')")
    asked = len(one.asked)
    await one.run("python3 lose.py", lambda _: NO)
    assert len(one.asked) == asked and not (one.home.cwd / path).exists()
    await one.app.session_undo(one.actor).undo_turns()
    assert (one.home.cwd / path).read_text() == before


@pytest.mark.parametrize(
    "command",
    [
        "git init -q; echo build/ >> .gitignore",
        "touch build/CACHEDIR.TAG",
        "mkdir -p build/.gitignore .gitignore",
        "mkdir -p build/" + "d/" * 120,
        "mkdir -p ./!" + "/d" * 120,
        "chmod 300 build",
    ],
)
async def test_what_was_copied_before_stays_copied(command: str) -> None:
    async with scene(trusted=True) as one:
        (one.home.cwd / "build").mkdir()
        (one.home.cwd / "build/release.md").write_text("mine")
        await lose(one, command, path="build/release.md")


async def test_an_ignore_file_that_a_tool_writes_takes_no_copy_away() -> None:
    """No command has run yet, so that there was no listing."""
    async with scene(trusted=True) as one:
        git(one.home.cwd, "init", "-q")
        (one.home.cwd / "build").mkdir()
        (one.home.cwd / "build/release.md").write_text("mine")
        await one.call("write_file", lambda _: NO, path=".gitignore", content="build/\n")
        await lose(one, path="build/release.md")


async def test_a_tag_in_a_folder_of_a_command_takes_no_copy_of_a_later_file_away() -> None:
    async with scene(trusted=True) as one:
        await one.run("mkdir report; echo x > report/a; touch report/CACHEDIR.TAG", lambda _: ONCE)
        (one.home.cwd / "report/thesis.md").write_text("mine")
        await lose(one, path="report/thesis.md")


@pytest.mark.parametrize("command", ["mkdir .gitignore", "mkdir data/.gitignore", "mkdir -p .git/info/exclude"])
async def test_a_folder_in_the_place_of_an_ignore_file_breaks_nothing(command: str) -> None:
    async with scene(trusted=True) as one:
        (one.home.cwd / ".git").mkdir()
        (one.home.cwd / "data").mkdir()
        (one.home.cwd / "data/thesis.md").write_text("mine")
        await lose(one, command, "true > x", path="data/thesis.md")
