"""Code that waits at a call goes on under another version of its interpreter.

    python -m tests.torture.code_upgrade [--version 1.3.0] [--count 20] [--seed 1]

An environment with the other version is made beside the one that runs this. The program of `code_kills` is begun in the
one, its process is killed at a call, and the other goes on with it; then the other way round. The output is that of the
undisturbed run, each effect is there once, or the run ends by name; exit 1 when anything is otherwise.
"""

import argparse
import asyncio
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path

from hermes.testing.home import TempHome
from hermes.testing.server import ScriptedServer
from tests.torture.code_kills import SETTINGS, STEPS, Campaign, CodeModel
from tests.torture.marked_world import say, stored


def make_environment(folder: Path, version: str) -> str:
    """Make an environment with this version of the interpreter and everything else of this one; return its Python."""
    subprocess.run((sys.executable, "-m", "venv", folder), check=True)
    python = folder / "bin" / "python"
    install = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", f"pydantic-monty=={version}")
    subprocess.run(install, check=True)
    own = subprocess.run(
        (python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # What it does not have itself it takes from here; the path is searched in this order.
    paths = (sysconfig.get_path("purelib"), str(Path(__file__).resolve().parents[2]))
    (Path(own) / "rest.pth").write_text("\n".join(paths) + "\n")
    return str(python)


def find_version(python: str) -> str:
    """The version of the interpreter that an environment has."""
    code = "from hermes.execution.code.monty_engine import find_version; print(find_version())"
    return subprocess.run((python, "-c", code), capture_output=True, text=True, check=True).stdout.strip()


async def start(home: TempHome, python: str, *arguments: str) -> asyncio.subprocess.Process:
    """Start `hermes` in an environment."""
    return await asyncio.create_subprocess_exec(
        python,
        "-m",
        "hermes",
        *arguments,
        cwd=home.cwd,
        env=home.environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def cross(server: ScriptedServer, name: str, pythons: tuple[str, str], chance: random.Random) -> tuple[str, str]:
    """Begin the program in one environment and go on in the other; return how that went, and the output."""
    model = server.model
    assert isinstance(model, CodeModel)
    with TempHome.for_server(server.url, more_config=SETTINGS) as home:
        (home.cwd / "notes").mkdir()
        for number in range(STEPS):
            (home.cwd / "notes" / str(number)).write_text(f"note{number}\n")
        before = model.requests
        process = await start(home, pythons[0], "-z", f"RUN {name}")
        ending = asyncio.create_task(process.communicate())
        while model.requests == before and not ending.done():
            await asyncio.wait({ending}, timeout=0.005)
        await asyncio.wait({ending}, timeout=chance.uniform(0.1, 0.4))
        if ending.done():
            return "ended before it was killed", model.outputs.pop(name, "").replace(name, "NAME")
        process.kill()
        await ending
        if not stored(home, "SELECT 1 FROM code_runs"):
            return "killed outside of the code", ""
        process = await start(home, pythons[1], "--continue")
        _, errors = await process.communicate()
        if process.returncode:
            return f"ended with {process.returncode}: {errors.decode()[-300:]}", ""
        output = model.outputs.pop(name, "").replace(name, "NAME")
        lines = re.findall(rf"{name}-\d", (home.cwd / "effects").read_text())
        wanted = [f"{name}-{step}" for step in range(STEPS) if step % 3 == 1]
        if "cannot go on" in output:
            return "ended by name" if len(set(lines)) == len(lines) else f"effects twice: {lines}", ""
        return "went on" if lines == wanted else f"effects are {lines}", output


async def campaign(version: str, count: int, seed: int) -> int:
    """Cross both ways; return how many problems there were."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        other = await asyncio.to_thread(make_environment, Path(folder) / "other", version)
        versions = find_version(sys.executable), find_version(other)
        say(f"from {versions[0]} to {versions[1]} and back")
        problems = 0 if versions[0] != versions[1] else 1
        async with ScriptedServer([]) as server:
            server.model = CodeModel()
            undisturbed = await Campaign(server, server.model).world("u00000", None)
            for direction, pythons in (("there", (sys.executable, other)), ("back", (other, sys.executable))):
                found: Counter[str] = Counter()
                for number in range(10 * count):
                    said, output = await cross(server, f"{direction[0]}{number:05}", pythons, chance)
                    server.requests.clear()
                    found[said] += 1
                    if said == "went on" and output != undisturbed:
                        problems += 1
                        say(f"PROBLEM the output is another: {output!r}")
                    if found["went on"] + found["ended by name"] >= count:
                        break
                known = {"went on", "ended by name", "ended before it was killed", "killed outside of the code"}
                problems += sum(times for said, times in found.items() if said not in known)
                say(f"{direction}: {dict(found)}")
    say(f"{problems} problems")
    return problems


def main() -> int:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--version", default="1.3.0", help="the other version")
    made.add_argument("--count", type=int, default=20)
    made.add_argument("--seed", type=int, default=1)
    given = made.parse_args()
    return 1 if asyncio.run(campaign(given.version, given.count, given.seed)) else 0


if __name__ == "__main__":
    sys.exit(main())
