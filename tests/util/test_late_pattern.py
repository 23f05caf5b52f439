"""Patterns that are compiled at their first use."""

import importlib
import re
from pathlib import Path

import pytest

import hermes
from hermes.util.late_pattern import compile_late


def test_is_a_pattern() -> None:
    late = compile_late(r"(\w+)@(\w+)", re.IGNORECASE)
    assert late.sub(r"\2", "a@b c@d") == "b d"
    assert [found[1] for found in late.finditer("a@b c@d")] == ["a", "c"]
    assert late.flags & re.IGNORECASE


def test_a_mistake_is_raised_at_first_use() -> None:
    late = compile_late("(")
    with pytest.raises(re.error):
        late.search("")


def test_every_pattern_of_the_package_compiles() -> None:
    package = Path(hermes.__file__).parent
    files = [one for one in package.rglob("*.py") if " = compile_late(" in one.read_text(encoding="utf-8")]
    kind = type(compile_late(""))
    late = []
    for file in files:
        module = importlib.import_module(".".join(file.relative_to(package.parent).with_suffix("").parts))
        late += [value for value in vars(module).values() if isinstance(value, kind)]
    assert len(late) >= len(files) > 5
    assert all(one.pattern for one in late)
