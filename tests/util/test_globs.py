"""Globs are read, and paths are compared with them, in time that grows with their length, however they are made."""

import pytest

from hermes.util.globs import GlobError, PathGlobs


@pytest.mark.parametrize("text", ["[" * 1_000_000, "{[" * 500_000, "{a," * 500_000, "*.py " * 200_000])
def test_a_text_that_is_too_long_for_globs_is_refused(text: str) -> None:
    with pytest.raises(GlobError, match="too long"):
        PathGlobs(text)


def test_a_path_may_be_as_deep_as_the_system_lets_it_be() -> None:
    globs = PathGlobs("!b")
    assert globs.is_match("a/" * 2_047 + "c") and not globs.is_match("b/" + "a/" * 2_046 + "c")
