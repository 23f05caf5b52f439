"""Old names and paths of what plug-ins import answer, with a warning."""

import importlib
import subprocess
import sys

import pytest

from hermes.util import renamed


@pytest.mark.parametrize(("module", "names"), renamed._NAMES.items())
def test_old_names_give_todays_objects(module: str, names: dict[str, str]) -> None:
    found = importlib.import_module(module)
    for old, today in names.items():
        with pytest.warns(DeprecationWarning, match=f"{module}.{old} is {today} now"):
            assert getattr(found, old) is getattr(found, today)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        found.nothing  # noqa: B018


@pytest.mark.parametrize(("old", "today"), renamed._MODULES.items())
def test_old_paths_give_todays_modules(old: str, today: str) -> None:
    program = f"""
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import {old} as found
    import {today} as wanted
assert any("{old} is {today} now" in str(one.message) for one in said), said
assert {{name for name in vars(wanted) if name[0] != "_"}} <= set(dir(found))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_never_was_is_not_found() -> None:
    renamed.answer_renamed_modules()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("hermes.testing.nothing")
