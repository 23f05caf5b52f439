"""Every verb of the command line, held to the same few promises."""

import subprocess
import sys

import pytest

from hermes.cli.main import VERBS, help_text
from hermes.testing.home import TempHome


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "version"])
async def test_its_help_says_what_it_does_and_gives_an_example(verb: str) -> None:
    with TempHome() as home:
        done = await home.run(sys.executable, "-m", "hermes", verb, "--help")
        assert (done.code, done.stderr) == (0, "")
        assert "example: hermes" in done.stdout
        assert list(home.hermes.iterdir()) == []


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "version"])
async def test_an_unknown_option_is_one_clear_line(verb: str) -> None:
    with TempHome() as home:
        done = await home.run(sys.executable, "-m", "hermes", verb, "--no-such-option")
    assert done.code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"hermes {verb} --help" in done.stderr


def test_the_general_help_names_them_all() -> None:
    assert all(f"  {verb} " in help_text() for verb in VERBS)
    assert subprocess.run([sys.executable, "-m", "hermes", "--version"], capture_output=True, check=True).stdout
