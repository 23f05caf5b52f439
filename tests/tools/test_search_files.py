"""Searching, by ripgrep and by our own walker, with the same answers."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.core.messages import ToolStatus
from tests.requirements import require
from tests.tools.tool_session import Session

FILES = {
    "a.py": "import os\n\ndef first():\n    return 1\n\ndef second():\n    return 2\n",
    "b/deep/c.py": "def third():\n    pass\n",
    "b/notes.txt": "def in notes\n天气 здесь\n",
    "b.py": "def fourth(): pass\n",
    ".github/w.yml": "def: hidden\n",
    ".git/config": "def in git\n",
    "node_modules/m.js": "def in modules\n",
    "build/out.py": "def built(): pass\n",
    "keep.log": "def kept\n",
    "other.log": "def logged\n",
    ".gitignore": "build/\n*.log\n!keep.log\n/b/skip.py\n",
    "b/skip.py": "def skipped(): pass\n",
    "bin.dat": "def\0binary\n",
}


@pytest.fixture(params=["ripgrep", "walker"])
def tree(session: Session, request: pytest.FixtureRequest) -> Session:
    for name, text in FILES.items():
        path = session.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if request.param == "walker":
        session.context = replace(session.context, search_path="")
    else:
        require("ripgrep")
    return session


async def test_lines_are_sorted_and_what_git_ignores_is_left_out(tree: Session) -> None:
    assert await tree.text("search_files", pattern="^def") == "\n".join([
        ".github/w.yml:1:def: hidden",
        "a.py:3:def first():",
        "a.py:6:def second():",
        "b/deep/c.py:1:def third():",
        "b/notes.txt:1:def in notes",
        "b.py:1:def fourth(): pass",
        "keep.log:1:def kept",
    ])  # fmt: skip


async def test_pages(tree: Session) -> None:
    text = await tree.text("search_files", pattern="^def", limit=2, offset=1)
    assert text == "a.py:3:def first():\na.py:6:def second():\n[more follow; go on with offset=3]"
    assert await tree.text("search_files", pattern="^def", offset=99) == "No matches after the first 99."


async def test_names_and_counts(tree: Session) -> None:
    names = await tree.text("search_files", pattern="^def", output_mode="files_only", file_glob="*.py")
    assert names == "a.py\nb/deep/c.py\nb.py"
    counts = await tree.text("search_files", pattern="def", output_mode="count", path="a.py")
    assert counts == "a.py:2"
    assert await tree.text("search_files", pattern="def", output_mode="count", file_glob="*.py") == (
        "a.py:2\nb/deep/c.py:1\nb.py:1"
    )


async def test_lines_around(tree: Session) -> None:
    assert await tree.text("search_files", pattern="return", path="a.py", context=1) == "\n".join([
        "a.py:3-def first():", "a.py:4:    return 1", "a.py:5-",
        "a.py:6-def second():", "a.py:7:    return 2",
    ])  # fmt: skip
    apart = await tree.text("search_files", pattern="import|second", path="a.py", context=0)
    assert apart == "a.py:1:import os\na.py:6:def second():"


async def test_files_are_in_the_order_of_their_names_folder_by_folder(session: Session) -> None:
    names = ["a/z", "a.b/z", "a-b", "A", "a0/y/z", "a0/y.z", "a 1", "天/气", "ü", "b/a/c", "b/a.c", "b/a-c"]
    for path in (session.cwd / name for name in names):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one\nneedle\nthree\nfour\nneedle\n")
    ordered = sorted(names, key=lambda name: os.fsencode(name).split(b"/"))
    for engine in ("", session.context.search_path):
        session.context = replace(session.context, search_path=engine)
        assert (await session.text("search_files", pattern="needle", output_mode="files_only")).split("\n") == ordered
        assert (await session.text("search_files", pattern="*", target="files")).split("\n") == ordered
        lines = (await session.text("search_files", pattern="needle")).split("\n")
        assert lines == [f"{name}:{number}:needle" for name in ordered for number in (2, 5)]
        around = (await session.text("search_files", pattern="needle", context=1)).split("\n")
        assert [line for line in around if line.endswith(":needle")] == lines and around.count("--") == len(names) - 1


async def test_the_first_page_of_very_many_lines_is_that_of_the_first_files(tree: Session) -> None:
    for number in range(30):
        (tree.cwd / f"many{number:02}.txt").write_text("needle\n" * 500)
    page = await tree.text("search_files", pattern="needle", limit=1_000)
    lines = [f"many{number:02}.txt:{line}:needle" for number in range(2) for line in range(1, 501)]
    assert page.split("\n") == [*lines, "[more follow; go on with offset=1000]"]
    counts = await tree.text("search_files", pattern="needle", output_mode="count")
    assert counts.split("\n") == [f"many{number:02}.txt:500" for number in range(30)]


async def test_what_is_never_searched_is_left_out_at_any_depth(session: Session) -> None:
    """Of a folder in which none of it is seen, ripgrep is not told what to leave out."""
    texts = {
        "a/b/c/.git/config": "needle\n" * 50,
        "a/b/node_modules/deep/m.js": "needle\n",
        "a/b/__pycache__": "needle\n",
    }
    for name, text in {**texts, "a/b/c/kept": "needle\n"}.items():
        path = session.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for engine in ("", session.context.search_path):
        session.context = replace(session.context, search_path=engine)
        for made in ("a/other", "repository/.git/x", "node_modules/x"):
            (session.cwd / made).mkdir(parents=True, exist_ok=True)
            lines = await session.text("search_files", pattern="needle")
            assert lines == "a/b/__pycache__:1:needle\na/b/c/kept:1:needle", made
            assert await session.text("search_files", pattern="*", target="files") == "a/b/__pycache__\na/b/c/kept", (
                made
            )
            inside = await session.text("search_files", pattern="needle", path="a/b/node_modules")
            assert inside == "a/b/node_modules/deep/m.js:1:needle"
            counts = await session.text("search_files", pattern="needle", output_mode="count")
            assert counts == "a/b/__pycache__:1\na/b/c/kept:1"


async def test_what_git_ignores_above_the_searched_folder_is_left_out(tree: Session) -> None:
    assert await tree.text("search_files", pattern="^def", path="b") == (
        "b/deep/c.py:1:def third():\nb/notes.txt:1:def in notes"
    )
    assert await tree.text("search_files", pattern="^def", path="b/deep") == "b/deep/c.py:1:def third():"
    (tree.cwd / ".gitignore").write_text("*.txt\n")
    assert await tree.text("search_files", pattern="^def", path="b") == (
        "b/deep/c.py:1:def third():\nb/skip.py:1:def skipped(): pass"
    )
    (tree.cwd / ".gitignore").unlink()
    assert (await tree.text("search_files", pattern="^def", path="b")).split("\n") == [
        "b/deep/c.py:1:def third():", "b/notes.txt:1:def in notes", "b/skip.py:1:def skipped(): pass"
    ]  # fmt: skip


@pytest.mark.needs("ripgrep")
async def test_a_search_shows_each_line_once_on_one_processor_and_on_all(session: Session) -> None:
    for name in ("a", "b/c"):
        (session.cwd / name).parent.mkdir(exist_ok=True)
        (session.cwd / name).write_text("один два три цель7\n" + "жук жила " * 200_000 + "\nдва три пять цель8\n")
    for _ in range(2):  # on all processors, and again since that took long
        lines = await session.text("search_files", pattern=r"\b(цель|\w+) \w+ \w+ \w+\d\b")
        assert lines.split("\n") == [
            *("a:1:один два три цель7", "a:3:два три пять цель8"),
            *("b/c:1:один два три цель7", "b/c:3:два три пять цель8"),
        ]
    for _ in range(2):  # on all, and on one since that was quick
        assert await session.text("search_files", pattern="цель8") == "a:3:два три пять цель8\nb/c:3:два три пять цель8"


async def test_files_by_name(tree: Session) -> None:
    assert await tree.text("search_files", pattern="*.py", target="files") == "a.py\nb/deep/c.py\nb.py"
    assert await tree.text("search_files", pattern="*.py", target="files", path="b") == "b/deep/c.py"
    assert await tree.text("search_files", pattern="note", target="files") == "b/notes.txt"
    assert await tree.text("search_files", pattern="/*.py", target="files") == "a.py\nb.py"
    assert (
        await tree.text("search_files", pattern="!*.py *.log", target="files", path="b")
        == "No matches.\n[!*.py *.log fits none of 2 files here]"
    )
    assert await tree.text("search_files", pattern="!*.py", target="files", path="b") == "b/notes.txt"
    assert await tree.text("search_files", pattern="none", target="files") == "No matches."


async def test_other_scripts_and_long_lines(tree: Session) -> None:
    assert await tree.text("search_files", pattern="天气") == "b/notes.txt:2:天气 здесь"
    (tree.cwd / "wide").write_text("needle" + "x" * 5_000 + "\n")
    assert len(await tree.text("search_files", pattern="needle")) < 320


async def test_a_bad_pattern_and_a_bad_path_are_said(tree: Session) -> None:
    bad = await tree.call("search_files", pattern="(")
    assert bad.status is ToolStatus.ERROR and "pattern is not valid" in bad.text
    missing = await tree.call("search_files", pattern="x", path="nowhere")
    assert missing.status is ToolStatus.ERROR and "nowhere" in missing.text
    assert await tree.text("search_files", pattern="-e") == "No matches."


async def test_secrets_are_not_found(tree: Session) -> None:
    home = Path(tree.context.places.home)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519").write_text("def secret\n")
    (home / "plain").write_text("def plain\n")
    assert await tree.text("search_files", pattern="def", path="~") == "~/plain:1:def plain"
    assert (await tree.call("search_files", pattern="def", path="~/.ssh")).status is ToolStatus.REFUSED


async def test_a_pattern_that_never_ends_is_stopped(session: Session) -> None:
    (session.cwd / "f").write_text("a" * 60 + "!\n")
    session.context = replace(session.context, search_path="", search_seconds=0.5)
    async with asyncio.timeout(60):  # without a limit it would take years
        text = await session.text("search_files", pattern="(a+)+$")
    assert "stopped after" in text


async def test_links_and_what_they_lead_to_are_left_out(tree: Session) -> None:
    outside = tree.cwd.parent / "outside"
    outside.mkdir()
    (outside / "one.py").write_text("def outside(): pass\n")
    (tree.cwd / "linked").symlink_to(outside)
    (tree.cwd / "linked.py").symlink_to(outside / "one.py")
    assert "outside" not in await tree.text("search_files", pattern="^def")
    assert "linked" not in await tree.text("search_files", pattern="linked", target="files")
    assert await tree.text("search_files", pattern="^def", path="linked") == "linked/one.py:1:def outside(): pass"


async def test_a_link_as_the_one_file_is_followed_by_hand(tree: Session) -> None:
    (tree.cwd / "link").symlink_to("a.py")
    assert await tree.text("search_files", pattern="first", path="link") == "link:3:def first():"


async def test_a_script_in_the_place_of_ripgrep_is_not_used(tree: Session) -> None:
    engine = tree.cwd.parent / "bin/rg"
    engine.parent.mkdir()
    engine.write_text("#!/bin/sh\nprintf 'a.py\\0001:forged\\n'\n")
    engine.chmod(0o755)
    tree.context = replace(tree.context, search_path=str(engine.parent))
    assert await tree.text("search_files", pattern="first") == "a.py:3:def first():"


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.{py,txt}", "a.py b/deep/c.py b/notes.txt b.py"),
        ("**/*.py", "a.py b/deep/c.py b.py"),
        ("/*.py", "a.py b.py"),
        ("b/**", "b/deep/c.py b/notes.txt"),
        ("b/*", "b/notes.txt"),
        ("!*.py", ".github/w.yml b/notes.txt keep.log"),
        ("b/", "b/deep/c.py b/notes.txt"),
        ("[ab].py", "a.py b.py"),
        ("*.py *.txt", "a.py b/deep/c.py b/notes.txt b.py"),
        ("*.py, !b/", "a.py b.py"),
        ("./b/**", "b/deep/c.py b/notes.txt"),
        ("deep/", "b/deep/c.py"),
        ("[!a]*.py", "b/deep/c.py b.py"),
        ("\\a.py", "a.py"),
    ],
)
async def test_globs_mean_what_they_mean_to_ripgrep(tree: Session, glob: str, found: str) -> None:
    shown = await tree.text("search_files", pattern="def", file_glob=glob, output_mode="files_only")
    assert shown.split("\n") == found.split()


@pytest.mark.parametrize(
    ("glob", "why"),
    [("?.{py", "a `}` is missing"), ("[a", "a `]` is missing"), ("a\\", "last backslash"), ("[z-a]", "z-a is empty"),
     ("!", "names nothing"), ("**/a/**/b/**/c/**/d", "too many")],
)  # fmt: skip
async def test_a_glob_that_is_none_is_said_in_a_line(tree: Session, glob: str, why: str) -> None:
    for asked in (
        {"pattern": "def", "file_glob": glob},
        {"pattern": f"{glob}*" if glob != "a\\" else "*a\\", "target": "files"},
    ):
        result = await tree.call("search_files", **asked)
        if glob != "!" or "file_glob" in asked:
            assert result.status is ToolStatus.ERROR and why in result.text and "\n" not in result.text


async def test_how_many_files_a_glob_left_is_said_where_nothing_is_found(tree: Session) -> None:
    for glob, left in (("*.tsx", "none"), ("*.py", "3"), ("!*.py", "5"), ("b/**", "2")):
        text = await tree.text("search_files", pattern="nowhere at all", file_glob=glob)
        assert text == f"No matches.\n[{glob} fits {left} of 8 files here]"
    assert await tree.text("search_files", pattern="nowhere at all") == "No matches."
    assert await tree.text("search_files", pattern="nowhere", file_glob="*.tsx", path="a.py") == "No matches."


async def test_lines_of_every_encoding_are_found_again(tree: Session) -> None:
    (tree.cwd / "marked").write_bytes("\ufeffneedle one\r\nneedle two\r\n".encode())
    (tree.cwd / "odd").write_bytes(b"needle caf\xe9\n" + b"x" * 9_000 + b"\nneedle last")
    (tree.cwd / "wide").write_text("needle " + "天" * 5_000 + "\n")
    shown = (await tree.text("search_files", pattern="needle")).splitlines()
    assert [one[:20] for one in shown] == [
        "marked:1:needle one", "marked:2:needle two", "odd:1:needle caf\ufffd", "odd:3:needle last",
        "wide:1:needle " + "天" * 6,
    ]  # fmt: skip
    counts = await tree.text("search_files", pattern="needle", output_mode="count")
    assert counts == "marked:2\nodd:2\nwide:1"


@pytest.mark.needs("ripgrep")
async def test_utf16_is_found_by_ripgrep(session: Session) -> None:
    (session.cwd / "f").write_bytes("one\nneedle 天\n".encode("utf-16"))
    assert await session.text("search_files", pattern="needle") == "f:2:needle 天"


@pytest.mark.parametrize("engine", ["ripgrep", "walker"])
async def test_a_search_that_is_stopped_ends_at_once(session: Session, engine: str) -> None:
    if engine == "ripgrep":
        require("ripgrep")
    else:
        session.context = replace(session.context, search_path="")
    for number in range(300):
        (session.cwd / f"f{number}").write_bytes((b"a" * 79 + b"\n") * 20_000)
    task = asyncio.create_task(session.call("search_files", pattern=r"(a|aa)+b\b"))
    await asyncio.sleep(0.3)  # it runs: nothing tells from outside that it does
    assert not task.done()
    stopped = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - stopped < 0.2 * slowness()
    await asyncio.to_thread(wait_for_end_of_engines)


def wait_for_end_of_engines() -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    deadline = time.monotonic() + 5
    while any(is_engine(child) for child in children.read_text().split()):
        assert time.monotonic() < deadline


def is_engine(child: str) -> bool:
    try:
        return "a|aa" in Path(f"/proc/{child}/cmdline").read_text()
    except OSError:
        return False


def slowness() -> float:
    """How much longer things take on a machine that is busy: the load a processor."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
