"""Patches are read in the forms in which models write them."""

import pytest

from hermes.core.errors import ToolError
from hermes.tools.patch_text import PatchAction, find_patch_paths, parse_patch

PLAIN = "*** Begin Patch\n*** Update File: a.py\n@@\n x\n-a\n+b\n*** Add File: new\n+c\n*** End Patch"


@pytest.mark.parametrize(
    "written",
    [
        f"```diff\n{PLAIN}\n```",
        f"apply_patch <<'EOF'\n{PLAIN}\nEOF",
        f"<<EOF\n{PLAIN}\nEOF\n",
        f"bash -lc \"apply_patch <<'PATCH'\n{PLAIN}\nPATCH\"",
        f"```\napply_patch <<-EOF\n{PLAIN}\nEOF\n```\n",
        "\n".join(f"    {line}" for line in PLAIN.split("\n")),
        PLAIN.replace("*** ", "  *** "),
        PLAIN.replace("*** Update", " *** Update").replace("*** Add", " *** Add").replace("*** End", " *** End"),
        PLAIN.replace("*** End", "  *** End"),
        PLAIN.replace("\n", "\r\n"),
    ],
)
def test_what_is_wrapped_around_a_patch_is_left_out(written: str) -> None:
    assert parse_patch(written) == parse_patch(PLAIN)
    assert find_patch_paths(written) == [("a.py", PatchAction.UPDATE), ("new", PatchAction.ADD)]


def test_an_unchanged_line_that_looks_like_a_marker_is_one() -> None:
    patch = "*** Begin Patch\n*** Update File: guide.md\n *** Update File: x\n-a\n+b\n *** End of File\n*** End Patch"
    (section,) = parse_patch(patch)
    assert section.path == "guide.md" and section.hunks[0].old == ("*** Update File: x", "a", "*** End of File")
    assert find_patch_paths(patch) == [("guide.md", PatchAction.UPDATE)]


def test_blank_lines_of_an_added_file_stay() -> None:
    (section, other) = parse_patch("*** Add File: a\n+a\n\n+\n  \n+b\n\n*** Add File: b\n+c\n")
    assert section.content == "a\n\n\n \nb\n" and other.content == "c\n"
    with pytest.raises(ToolError, match="Line 3 of the patch"):
        parse_patch("*** Add File: a\n+a\nb\n")
