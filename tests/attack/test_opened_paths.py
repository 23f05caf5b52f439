"""File tools see what commands see: random paths, swaps at full speed, and the programs that look for them."""

import contextlib
from collections import Counter
from pathlib import Path

import pytest

from hermes.execution.sandbox.probe import SandboxMechanism
from tests.attack import path_races
from tests.attack.path_races import CANARY, OPENERS, Opener, Scene, race
from tests.attack.path_verdicts import compare, make_scene
from tests.execution.test_sandbox import PROBES, WAYS
from tests.requirements import require_sandbox


@pytest.mark.parametrize("way", WAYS)
async def test_tools_and_the_kernel_agree_on_random_paths(way: SandboxMechanism, tmp_path: Path) -> None:
    support = await PROBES[way].find_support()
    require_sandbox(way, support.is_usable, support.reason)
    seen: Counter[str] = Counter()
    async with make_scene(tmp_path, way, 1) as scene:
        assert await compare(scene, 200, way, seen) == []
    assert seen["read yes"] and seen["read no"]


@pytest.mark.parametrize("confined", [False, True], ids=["owner", "confined"])
@pytest.mark.parametrize("opener", OPENERS, ids=lambda opener: opener.__name__)
async def test_swaps_lead_no_opener_elsewhere(opener: Opener, confined: bool) -> None:
    turns, swaps, wrong = await race(opener, 0.7, confined=confined)
    assert wrong == [] and turns and swaps > 100


async def test_an_opener_by_name_is_caught() -> None:
    """What the races are for: they find what opens a name that was judged before."""

    async def read_by_name(scene: Scene, turn: int) -> str:
        path = scene.work / scene.names[turn % 9]
        try:
            return path.read_text() if not path.is_symlink() else ""
        except OSError:
            return ""

    async def write_by_name(scene: Scene, turn: int) -> str:
        path = scene.work / scene.names[turn % 9]
        with contextlib.suppress(OSError):
            path.write_text(f"{path_races.MARK} {turn}")
        return ""

    assert any(CANARY in one for one in (await race(read_by_name, 0.7, confined=False))[2])
    assert any("was changed" in one for one in (await race(write_by_name, 0.7, confined=False))[2])
