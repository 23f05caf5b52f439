"""Replacements and patches: exact first, then with small differences, all or nothing."""

import random

import pytest

from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.tools import edits, patch_text
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
    with pytest.raises(ToolError, match="2 places"):
        edits.replace_text("  a  \n  a\n", "a\t", "b", everywhere=False, display_path="f")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        # context keeps its quotes, blanks and trailing blanks, and the changed line all that does not change
        ("print('a  b')\nsay(“x”)  \nend\n", "print('a b')\nsay(\"x\")", "print('a b')\nsay(\"y\")",
         "print('a  b')\nsay(“y”)  \nend\n"),
        ("a\u00a0= 1\nb\n", "a = 1\nb", "a = 2\nb", "a\u00a0= 2\nb\n"),
        ("cafe\u0301 = 1\n", "café = 1", "café = 2", "cafe\u0301 = 2\n"),
        # a line that comes gets the file's indentation, one step deeper too, and its line ends
        ("if a:\n\tb()\n", "if a:\n    b()", "if a:\n    b()\n    if c:\n        d()",
         "if a:\n\tb()\n\tif c:\n\t\td()\n"),
        ("    if a:\n        b\n", "if a:\n    b", "if a:\n    b\n    c", "    if a:\n        b\n        c\n"),
        ("a  \nb\n", "a", "a\nnew", "a  \nnew\nb\n"),
        ("one\r\ntwo\nx\r\n", "one\ntwo", "one\nnew\ntwo", "one\r\nnew\ntwo\nx\r\n"),
        ("a\nlast", "last\n", "end\n", "a\nend"),
        ("a\nlast  ", "last\n", "", "a"),
    ],
)  # fmt: skip
def test_what_an_edit_does_not_change_stays_as_the_file_has_it(before: str, old: str, new: str, after: str) -> None:
    assert edits.replace_text(before, old, new, everywhere=False, display_path="a")[0] == after
    if not before.endswith("\n"):
        return
    marked = [*(f"-{line}" for line in old.split("\n")), *(f"+{line}" for line in new.split("\n"))]
    (section,) = patch_text.parse_patch("*** Update File: a\n" + "\n".join(marked))
    patched = edits.apply_hunks(before, section.hunks, "a")[0].split("\n")
    assert [line.split() for line in patched] == [line.split() for line in after.split("\n")]


@pytest.mark.parametrize(
    ("data", "old", "new", "after"),
    [
        (b"a\rb\rc\r", "a\nb", "a\nx", b"a\rx\rc\r"),
        (b"\xef\xbb\xbfa = 1\r\n", "\ufeffa = 1", "a = 2", b"\xef\xbb\xbfa = 2\r\n"),
        (b"one\r\ntwo\r\nthree\nfour\r\n", "two", "2", b"one\r\n2\r\nthree\nfour\r\n"),
        (b"caf\xe9\nb\n", "b", "é", b"caf\xe9\n\xe9\n"),
        ("größe schön\n".encode() + b"\xff\nb\n", "b", "天", "größe schön\n".encode() + b"\xff\n\xe5\xa4\xa9\n"),
    ],
)
async def test_the_bytes_of_other_lines_stay(session: Session, data: bytes, old: str, new: str, after: bytes) -> None:
    (session.cwd / "f").write_bytes(data)
    await session.text("patch", path="f", old_string=old, new_string=new)
    assert (session.cwd / "f").read_bytes() == after


async def test_what_an_encoding_has_not_is_refused(session: Session) -> None:
    (session.cwd / "f").write_bytes(b"caf\xe9\nb\n")
    result = await session.call("patch", path="f", old_string="b", new_string="天")
    assert result.status is ToolStatus.ERROR and "Latin-1" in result.text
    assert (session.cwd / "f").read_bytes() == b"caf\xe9\nb\n"


def test_lines_that_look_alike_are_told_in_the_words_of_the_mode() -> None:
    text = "def f():\n    x =  1\ndef g():\n    x = “1”\n    x = 1.0\n    x  = 1\n"
    with pytest.raises(ToolError, match=r"2 places \(lines 2, 6\).*exactly as the file has it"):
        edits.replace_text(text, "x = 1\n", "x = 2\n", everywhere=False, display_path="a")
    (section,) = patch_text.parse_patch("*** Update File: a\n-x = 1\n+x = 2\n")
    with pytest.raises(ToolError, match=r"2 times \(lines 2, 6\)\. Give more of the lines .* with '@@ '") as caught:
        edits.apply_hunks(text, section.hunks, "a")
    assert "replace_all" not in str(caught.value)
    (section,) = patch_text.parse_patch("*** Update File: a\n@@ x = 1.0\n-x = 1\n+x = 2\n")
    assert edits.apply_hunks(text, section.hunks, "a")[0] == text.replace("x  = 1", "x  = 2")


def test_places_that_overlap_are_one_where_it_makes_no_difference() -> None:
    assert edits.replace_text("a\n\n\n\nb", "\n\n\n", "\n\n", everywhere=False, display_path="a")[0] == "a\n\n\nb"
    with pytest.raises(ToolError, match=r"2 times \(lines 1, 2\)"):
        edits.replace_text("}\n}\n}\n", "}\n}\n", "}\nx\n", everywhere=False, display_path="a")


def test_a_hunk_above_the_one_before_it_is_found_or_told() -> None:
    text = "one\ntwo\nthree\nfour\nfive\nfour\n"
    (section,) = patch_text.parse_patch("*** Update File: f\n-five\n+5\n@@\n-two\n+2\n")
    assert edits.apply_hunks(text, section.hunks, "f") == (
        "one\n2\nthree\nfour\n5\nfour\n", "Hunk 2 lies above the one before it."
    )  # fmt: skip
    (section,) = patch_text.parse_patch("*** Update File: f\n@@ one\n-three\n+3\n@@ one\n-four\n+4\n")
    assert edits.apply_hunks(text, section.hunks, "f")[0] == "one\ntwo\n3\n4\nfive\nfour\n"
    (section,) = patch_text.parse_patch("*** Update File: f\n-five\n+four\n@@\n-six\n+6\n")
    with pytest.raises(ToolError, match="Hunk 2 of f has no place in the file"):
        edits.apply_hunks(text, section.hunks, "f")
    (section,) = patch_text.parse_patch("*** Update File: f\n-five\n+a\n+b\n@@\n-b\n+c\n")
    with pytest.raises(ToolError, match="earlier hunk wrote"):
        edits.apply_hunks(text, section.hunks, "f")


def test_a_hunk_at_the_end_is_there_also_where_it_fits_better_above() -> None:
    (section,) = patch_text.parse_patch("*** Update File: f\n-a b\n+c\n*** End of File\n")
    assert edits.apply_hunks("a b\nx\na  b\n", section.hunks, "f")[0] == "a b\nx\nc\n"


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
    (section,) = patch_text.parse_patch("*** Update File: f\n@@ b\n-x\n+1\n@@\n-z\n+3\n*** End of File\n")
    text, _ = edits.apply_hunks("x\nb\nx\nz\ny\nz", section.hunks, "f")
    assert text == "x\nb\n1\nz\ny\n3"


def test_an_insertion_goes_below_its_line_or_to_the_end() -> None:
    (section,) = patch_text.parse_patch("*** Update File: f\n@@ b\n+1\n")
    assert edits.apply_hunks("a\nb\nc\n", section.hunks, "f")[0] == "a\nb\n1\nc\n"
    (section,) = patch_text.parse_patch("*** Update File: f\n+last\n")
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


@pytest.mark.parametrize(
    ("there", "old", "new", "changed"),
    [
        ("x" + "  a  b" * 50_000, "x" + " a b" * 50_000, "x" + " a c" * 50_000, "x" + " a c" * 50_000),
        ("a" * 200_000, "a" * 100_000, "b", None),
        ("a" * 200_000, "a" * 100_001, "a" * 100_002, None),
        ("a\n" * 100_000, "a \n" * 5_000, "b\n" * 5_000, None),
    ],
    ids=["words", "places", "overlaps", "lines"],
)
def test_an_edit_of_very_many_parts_is_made_or_refused_in_no_more_than_moments(
    there: str, old: str, new: str, changed: str | None
) -> None:
    if changed is not None:
        assert edits.replace_text(there, old, new, everywhere=False, display_path="f")[0] == changed
        return
    with pytest.raises(ToolError, match="times"):
        edits.replace_text(there, old, new, everywhere=old.endswith("\n"), display_path="f")


@pytest.mark.parametrize("blanks", [" ", "  "])
def test_a_patch_of_very_many_hunks_is_refused_before_it_takes_minutes(blanks: str) -> None:
    text = "\n".join(f"line {number}" for number in range(50_000))
    hunks = [patch_text.Hunk((f"line{blanks}{number}",), ("x",)) for number in range(10_000)]
    with pytest.raises(ToolError, match="Send it in parts"):
        edits.apply_hunks(text, hunks, "f")
