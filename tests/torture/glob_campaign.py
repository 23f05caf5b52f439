"""Globs of `search_files` against ripgrep itself: both engines leave the files that `rg --files --glob` leaves.

    python -m tests.torture.glob_campaign --count 5000 --seed 0

What is different on purpose is not made here: `folder/` alone, braces in braces, `./` at the beginning, a bracket that
stands for a slash, `**` in braces behind other characters, and letters of several bytes.
"""

import argparse
import asyncio
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from hermes.core.messages import ToolStatus
from hermes.tools.registry import ToolRegistry
from tests.tools.tool_session import Session, make_context

NAMES = (
    *("a", "b", "ab", "a.ts", "b.ts", "a.tsx", "b.py", "ab.py", "c-d.md", "README.md", ".hid", "x{y}.ts", "[x].ts"),
    *("!a.ts", "a,b", "A.ts", "^b", "a]b"),
)
FOLDERS = ("a", "b", "ab", "src", "src/a", "src/deep/b", "deep", "A", "b.ts", "src/a.ts")
LITERALS = ("a", "b", "ab", "src", "deep", ".ts", ".py", ".", "x", "A", "-", "c-d")
CASES_A_TREE = 50


@dataclass(frozen=True)
class GlobCase:
    """Some globs in a tree of files; `found` is what each engine left, and `wanted` what ripgrep does."""

    globs: tuple[str, ...]
    wanted: str
    found: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        return all(found == self.wanted for found in self.found)


def make_tree(folder: Path, chosen: random.Random) -> None:
    """Make some files in an empty folder."""
    for place in ("", *chosen.sample(FOLDERS, 6)):
        for name in chosen.sample(NAMES, 5):
            path = folder / place / name
            if not any(parent.is_file() for parent in path.parents) and not path.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("")


def make_globs(chosen: random.Random) -> tuple[str, ...]:
    """Return one glob, or several."""
    count = chosen.choice((1, 1, 1, 2, 3))
    return tuple(make_glob(chosen, has_more=count > 1) for _ in range(count))


def make_glob(chosen: random.Random, *, has_more: bool) -> str:
    """Return a glob; one of several has a sign by which it is known for a glob, and is valid."""
    names = ("".join(make_parts(chosen, has_more=has_more)).removeprefix("./") for _ in range(chosen.randint(1, 3)))
    segments = [chosen.choice(("**", "*", *[name] * 5)) for name in names]
    negated = "!" * (chosen.random() < 0.25)
    slashes = "/" * (chosen.random() < 0.15), "/" * (bool(negated) and chosen.random() < 0.2)
    glob = negated + slashes[0] + "/".join(f"x{one}" if one == "." else one for one in segments) + slashes[1]
    return glob if not has_more or not set("*?[{!/").isdisjoint(glob) else f"*{glob}"


def make_parts(chosen: random.Random, *, has_more: bool) -> Iterator[str]:
    """Yield the parts of one name of a glob."""
    classes = ["[ab]", "[a-c]", "[]x]", "[-a]", "[A-Z]", "[.]", "[[x]", *([] if has_more else ["[a-", "[b-a]"])]
    braces = ["{a,b}", "{a*,b}", "{ts,tsx,py}", "{a}", "{,a}", "{a/b,src}", "{a,[b,]}", "{a\\,b,b}"]
    braces += [] if has_more else ["{a,b"]
    firsts = ["[!a]", "[^a]", "[!]a]", "[^^]", "{**/a,b}"]
    for number in range(chosen.randint(1, 3)):
        kind = chosen.choice(("literal", "literal", "star", "any", "class", "braces", "escape"))
        if kind == "class" or kind == "braces":
            made = classes if kind == "class" else braces
            yield chosen.choice(made if number else [*made, *firsts])
        elif kind == "literal":
            yield chosen.choice(LITERALS)
        else:
            yield {"star": "*", "any": "?", "escape": chosen.choice(("\\a", "\\*", "\\[", "\\{", "\\!"))}[kind]


def ask_ripgrep(folder: Path, globs: tuple[str, ...]) -> str:
    """Return the files that ripgrep leaves, or `invalid`."""
    options = [part for glob in globs for part in ("--glob", glob)]
    command = ["rg", "--no-config", "--files", "--hidden", "--no-ignore", "--sort=path", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "invalid" if done.returncode == 2 else done.stdout.strip()


async def ask_tool(session: Session, globs: tuple[str, ...]) -> str:
    """Return the files that the tool leaves, or `invalid`."""
    asked = {"pattern": "*", "target": "files", "file_glob": " ".join(globs), "limit": 1000}
    result = await session.call("search_files", **asked)
    if result.status is ToolStatus.ERROR:
        return "invalid"
    return "" if result.text.startswith("No matches.") else result.text


async def run_campaign(folder: Path, seed: int, count: int) -> list[GlobCase]:
    """Return so many cases, each with what both engines and ripgrep leave."""
    chosen = random.Random(seed)
    made: list[GlobCase] = []
    while len(made) < count:
        place = folder / str(len(made))
        context = make_context(place.resolve())
        ripgrep, walker = (
            Session(one, ToolRegistry().select_tools()) for one in (context, replace(context, search_path=""))
        )
        make_tree(ripgrep.cwd, chosen)
        for _ in range(min(CASES_A_TREE, count - len(made))):
            globs = make_globs(chosen)
            found = (await ask_tool(ripgrep, globs), await ask_tool(walker, globs))
            made.append(GlobCase(globs, await asyncio.to_thread(ask_ripgrep, ripgrep.cwd, globs), found))
        await ripgrep.close()
        shutil.rmtree(place)
    return made


def main() -> int:
    """Run the campaign; return how the process ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = asyncio.run(run_campaign(Path(folder), options.seed, options.count))
    wrong = [case for case in cases if not case.is_right]
    some, invalid = sum(bool(case.wanted) for case in cases), sum(case.wanted == "invalid" for case in cases)
    sys.stdout.write(f"{len(cases)} cases, {some - invalid} with files, {invalid} invalid, {len(wrong)} wrong\n")
    for case in wrong[:20]:
        sys.stdout.write(f"{case}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
