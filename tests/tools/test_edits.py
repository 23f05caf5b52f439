"""Replacements and patches: exact first, then with small differences, all or nothing."""

import random

import pytest

from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.tools import edits
from hermes.tools.builtin.patch import _build_diff
from tests.tools.tool_session import Session

CODE = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"


async def test_an_exact_replacement_gives_a_short_diff(session: Session) -> None:
    (session.cwd / "a.py").write_text("".join(f"x{number} = {number}\n" for number in range(100)))
    text = await session.text("patch", path="a.py", old_string="x50 = 50", new_string="x50 = 51")
    assert text == "Changed a.py.\n@@ -49,5 +49,5 @@\n x48 = 48\n x49 = 49\n-x50 = 50\n+x50 = 51\n x51 = 51\n x52 = 52"
    assert "x50 = 51\n" in (session.cwd / "a.py").read_text()


def test_a_diff_is_the_same_as_one_of_all_lines() -> None:
    chosen = random.Random(7)
    for _ in range(2_000):
        before = "".join(chosen.choice("ab\n\n-+@ ") for _ in range(chosen.randint(0, 40)))
        at, gone = chosen.randint(0, len(before)), chosen.randint(0, 4)
        after = before[:at] + "".join(chosen.choice("ab\n") for _ in range(chosen.randint(0, 4))) + before[at + gone :]
        assert _apply_diff(before, _build_diff(before, after)) == after.removesuffix("\n").split("\n")


def _apply_diff(before: str, diff: str) -> list[str]:
    """Return the lines that a unified diff makes of a text, whose lines it must name as they are."""
    lines, done, made = before.removesuffix("\n").split("\n"), 0, list[str]()
    for line in diff.split("\n") if diff else ():
        if line.startswith("@@ "):
            first, _, count = line.split(" ")[1][1:].partition(",")
            start = int(first) - (count != "0")
            made += lines[done:start]
            done = start
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert lines[done] == line[1:]
            made += [line[1:]] if line[0] == " " else []
            done += 1
    return made + lines[done:]


async def test_more_than_one_place_needs_more_lines_or_replace_all(session: Session) -> None:
    path = session.cwd / "a"
    path.write_text("one\ntwo\none\n")
    result = await session.call("patch", path="a", old_string="one", new_string="1")
    assert result.status is ToolStatus.ERROR and "2 times (lines 1, 3)" in result.text
    assert path.read_text() == "one\ntwo\none\n"
    await session.text("patch", path="a", old_string="one", new_string="1", replace_all=True)
    assert path.read_text() == "1\ntwo\n1\n"


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        # blanks at line ends
        ("    def f(self):  \n        return 1 ", "    def f(self):\n        return 9", CODE.replace("1", "9")),
        # indentation: the new lines get the file's own
        ("def g(self):\n    return 2", "def g(self):\n    if x:\n        return 3\n    return 2",
         CODE.replace("        return 2", "        if x:\n            return 3\n        return 2")),
        # tabs for blanks
        ("\tdef g(self):\n\t\treturn 2", "\tdef g(self):\n\t\treturn 3", CODE.replace("return 2", "return 3")),
        # a newline at the end of both
        ("        return 2\n", "        return 7\n", CODE.replace("return 2", "return 7")),
        # deletion of lines
        ("\n    def g(self):\n        return 2\n", "", "class A:\n    def f(self):\n        return 1\n"),
    ],
)  # fmt: skip
def test_small_differences_are_overlooked(old: str, new: str, after: str) -> None:
    text, _ = edits.replace_text(CODE, old, new, everywhere=False, display_path="a")
    assert text == after


def test_quotes_and_dashes_are_folded() -> None:
    text, note = edits.replace_text(
        "say “hello” – now\n", 'say "hello" - now', "bye", everywhere=False, display_path="a"
    )
    assert text == "bye\n" and "quotes" in note


def test_what_is_not_there_is_said_with_the_nearest_place() -> None:
    with pytest.raises(ToolError, match="not in a") as caught:
        edits.replace_text(CODE, "    def f(this):\n        return 5", "x", everywhere=False, display_path="a")
    assert "2|    def f(self):" in str(caught.value)


def test_a_fuzzy_match_must_be_one_too() -> None:
    with pytest.raises(ToolError, match="2 times"):
        edits.replace_text("  a  \n  a\n", "a\t", "b", everywhere=False, display_path="f")


PATCH = """*** Begin Patch
*** Update File: a.py
@@ class A:
@@     def g(self):
-        return 2
+        return 20
*** Add File: new/b.txt
+one
+
+two
*** Delete File: gone.txt
*** Update File: old.txt
*** Move to: moved.txt
@@
-x
+y
*** End Patch
"""


async def test_a_patch_over_several_files(session: Session) -> None:
    (session.cwd / "a.py").write_text(CODE)
    (session.cwd / "gone.txt").write_text("g\n")
    (session.cwd / "old.txt").write_text("x\n")
    text = await session.text("patch", mode="patch", patch=PATCH)
    assert (session.cwd / "a.py").read_text() == CODE.replace("return 2", "return 20")
    assert (session.cwd / "new/b.txt").read_text() == "one\n\ntwo\n"
    assert not (session.cwd / "gone.txt").exists() and not (session.cwd / "old.txt").exists()
    assert (session.cwd / "moved.txt").read_text() == "y\n"
    assert "Created new/b.txt, 3 lines." in text and "Deleted gone.txt." in text


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("*** Update File: b.txt\n-no such line\n+x", "Hunk 1 of b.txt has no place"),
        ("*** Update File: b.txt\n@@ nowhere\n-b\n+x", "is not in the file"),
        ("*** Update File: none.txt\n-b\n+x", "none.txt does not exist"),
        ("*** Add File: b.txt\n+x", "exists already"),
        ("*** Delete File: none.txt", "does not exist"),
        ("*** Update File: b.txt\n*** Move to: a.py\n-b\n+c", "exists already"),
        ("*** Update File: b.txt\n b", "changes nothing"),
        ("*** Update File: b.txt\n%b", "must begin with"),
        ("*** Add File: c.txt\nx", "begins with '+'"),
        ("hello", "must begin with"),
        ("*** Update File: b.txt\n-c\n+d", "2 times (lines 2, 3)"),
    ],
)
async def test_a_patch_that_fails_anywhere_changes_nothing(session: Session, section: str, said: str) -> None:
    (session.cwd / "a.py").write_text(CODE)
    (session.cwd / "b.txt").write_text("b\nc\nc\n")
    good = "*** Update File: a.py\n-        return 1\n+        return 9\n"
    result = await session.call("patch", mode="patch", patch=f"*** Begin Patch\n{good}{section}\n*** End Patch")
    assert result.status is ToolStatus.ERROR and said in result.text
    assert (session.cwd / "a.py").read_text() == CODE and (session.cwd / "b.txt").read_text() == "b\nc\nc\n"
    assert sorted(entry.name for entry in session.cwd.iterdir()) == ["a.py", "b.txt"]


async def test_a_write_that_fails_in_the_middle_is_undone(session: Session) -> None:
    (session.cwd / "a.py").write_text(CODE)
    (session.cwd / "file").write_text("x")
    patch = "*** Update File: a.py\n-        return 1\n+        return 9\n*** Add File: file/below\n+x\n"
    result = await session.call("patch", mode="patch", patch=patch)
    assert result.status is ToolStatus.ERROR and "Every file is as it was" in result.text
    assert (session.cwd / "a.py").read_text() == CODE


def test_hunks_are_found_in_order_and_at_the_end_of_the_file() -> None:
    (section,) = edits.parse_patch("*** Update File: f\n@@ b\n-x\n+1\n@@\n-z\n+3\n*** End of File\n")
    text, _ = edits.apply_hunks("x\nb\nx\nz\ny\nz", section.hunks, "f")
    assert text == "x\nb\n1\nz\ny\n3"


def test_an_insertion_goes_below_its_line_or_to_the_end() -> None:
    (section,) = edits.parse_patch("*** Update File: f\n@@ b\n+1\n")
    assert edits.apply_hunks("a\nb\nc\n", section.hunks, "f")[0] == "a\nb\n1\nc\n"
    (section,) = edits.parse_patch("*** Update File: f\n+last\n")
    assert edits.apply_hunks("a\nb\n", section.hunks, "f")[0] == "a\nb\nlast\n"


async def test_line_ends_stay_and_stale_files_are_not_changed(session: Session) -> None:
    path = session.cwd / "f"
    path.write_bytes(b"a\r\nb\r\nc\r\n")
    await session.text("patch", path="f", old_string="a\nb", new_string="1\n2")
    assert path.read_bytes() == b"1\r\n2\r\nc\r\n"
    path.write_bytes(b"other\r\n")
    result = await session.call("patch", path="f", old_string="other", new_string="x")
    assert result.status is ToolStatus.ERROR and "changed on disk" in result.text


async def test_what_is_missing_is_said(session: Session) -> None:
    (session.cwd / "f").write_text("a\n")
    (session.cwd / "bin").write_bytes(b"a\0b")
    for arguments, said in (
        ({"mode": "patch"}, "Give the patch"),
        ({"old_string": "a", "new_string": "b"}, "Give the file"),
        ({"path": "f", "old_string": "", "new_string": "b"}, "old_string is empty"),
        ({"path": "f", "old_string": "a", "new_string": "a"}, "the same"),
        ({"path": "bin", "old_string": "a", "new_string": "b"}, "binary"),
        ({"path": "n", "old_string": "a", "new_string": "b"}, "does not exist"),
    ):
        result = await session.call("patch", **arguments)
        assert result.status is ToolStatus.ERROR and said in result.text
