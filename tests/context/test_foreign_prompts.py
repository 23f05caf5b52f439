"""Commands of other agents: what is filled in, and what they become as a person's own."""

from pathlib import Path

import pytest

from hermes.context.described_files import read_described_files
from hermes.context.foreign_prompts import format_foreign_prompt, translate_foreign_prompt


@pytest.mark.parametrize(
    ("body", "typed", "expected"),
    [
        ("Fix $1 in $2.", "a 'b c'", "Fix a in b c."),
        ("Fix $0 in $1.", "a b", "Fix a in b."),
        ("Fix $ARGUMENTS[0] and $1.", "a b", "Fix a and b."),
        ("All: $ARGUMENTS.", "a b", "All: a b."),
        ("Only $FILE, not $OTHER.", "FILE=x.py", "Only x.py, not $OTHER."),
        ("Nothing.", "more", "Nothing.\n\nmore"),
        ("Nothing.", "", "Nothing."),
        ("It costs $10.", "", "It costs $10."),
        ("Say $1.", "$ARGUMENTS", "Say $ARGUMENTS."),
        ("See !`git status` and `!x`.", "", "See (run `git status` and use its output) and `!x`."),
        ("Say $1.", "!`rm -r x`", "Say !`rm."),
    ],
)
def test_what_is_typed_is_filled_in_once_and_no_command_runs(body: str, typed: str, expected: str) -> None:
    assert format_foreign_prompt(body, typed) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Fix $0 in $1, $ARGUMENTS[1].", "Fix $1 in $2, $2."),
        ("Fix $1, $ARGUMENTS.", "Fix $1, $ARGUMENTS."),
        ("$FILE !`ls`", "$FILE (run `ls` and use its output)"),
    ],
)
def test_as_ones_own_words_are_counted_from_one(body: str, expected: str) -> None:
    assert translate_foreign_prompt(body) == expected


def test_heads_may_nest_and_hold_texts_below_a_key(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "sub").mkdir()
    (folder / "sub" / "b.md").write_text("B")
    (folder / "linked").symlink_to(folder / "sub")
    (folder / "a.md").write_text(
        "---\n# a comment\ndescription: >-\n  Two\n  lines: here\n\ntools:\n  write: false\n  'bash': true\n"
        "permission:\n  bash:\n    '*': deny\n    git diff: allow\n  edit: ask\nlist:\n  - x\n  - y\n---\nBody\n"
    )
    found = {one.name: one for one in read_described_files(folder, nested=True)}
    assert list(found) == ["a", "sub:b"]
    fields = found["a"].fields
    assert fields["description"] == "Two lines: here" and fields["list"] == "x, y"
    assert (fields["tools.write"], fields["tools.bash"]) == ("false", "true")
    assert fields["permission.bash.*"] == "deny" and fields["permission.bash.git diff"] == "allow"
    assert fields["permission.edit"] == "ask"
    assert [one.name for one in read_described_files(folder)] == ["a"]
