"""Finds what git would run of a repository's own: its hooks, and the programs that its settings name."""

import os
import time
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import PurePosixPath

from hermes.execution.git_settings import find_led_places, list_harmful_parts, read_line
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import CommandEffect, CommandJudgement, SimpleCommand

_MAX_BYTES = 262_144
_CACHE_SECONDS = 2.0
"""Seconds for which what repositories lead to is taken to be unchanged: people change it by hand."""
_MAX_INNER = 100
"""The most repositories inside a repository that are looked at."""


def is_hook_effect(effect: CommandEffect) -> bool:
    """Return whether an effect says that git may run a repository's hooks."""
    return effect.argv[:1] == ("git",) and any(one.endswith("/.git/hooks") for one in effect.targets)


def list_git_programs(effect: CommandEffect) -> list[str] | None:
    """Return the hooks and settings by which git could run a program there, or None where that cannot be told."""
    found: list[str] = []
    if any(word.startswith("-") for word in effect.argv[1:2]):
        return None  # settings, or another repository, for this command alone
    for target in effect.targets:
        if not target.endswith("/.git/hooks"):
            return None
        programs = list_repository_programs(target.removesuffix("/.git/hooks"))
        if programs is None:
            return None
        found += programs
    return found


def list_repository_programs(folder: str) -> list[str] | None:
    """Return the hooks and settings by which git could run a program in the repository that a folder is in.

    None where that cannot be told.
    """
    at = _find_work_tree(folder)
    if not at:
        return []
    git = os.path.join(at, ".git")
    if os.path.islink(git) or not os.path.isdir(git) or os.path.lexists(os.path.join(git, "commondir")):
        return None  # a work tree, or a repository that lies elsewhere
    if os.path.lexists(os.path.join(git, "modules")) or os.path.lexists(os.path.join(at, ".gitmodules")):
        return None  # repositories in it have programs of their own
    return _list_hooks(os.path.join(git, "hooks")) + _list_risky_settings(git)


def find_config_file(folder: str, workspace: str) -> str:
    """Return the settings file of the repository that a folder of the workspace is in; empty where there is none, or
    it lies elsewhere.
    """
    at = _find_work_tree(folder)
    found = os.path.join(at, ".git", "config")
    inside = is_or_below(at, os.path.realpath(workspace))
    return found if inside and os.path.isfile(found) and os.path.realpath(found) == found else ""


def is_led_to(path: str, home: str) -> bool:
    """Return whether git runs what is written to a path (absolute, resolved), or takes it for its settings, because a
    repository that the path lies in leads there.
    """
    age = int(time.monotonic() / _CACHE_SECONDS)
    led = (one for at in _list_upward(os.path.dirname(path)) for one in _find_led_places(at, home, age))
    return any(is_or_below(path, one) for one in led)


@lru_cache(maxsize=256)
def _find_led_places(folder: str, home: str, _age: int) -> tuple[str, ...]:
    """Return where the repository of a folder leads, if the folder has one itself."""
    git = _git_folder_of(folder)
    common = read_line(os.path.join(git, "commondir")) if git else ""
    found = dict.fromkeys((git, os.path.realpath(os.path.join(git, common)))) if git else ()
    led = (find_led_places(one, home, (folder,)) for one in found)
    return tuple(place for one in led for place in (*one.hooks, *one.settings))


def _list_upward(folder: str) -> Iterator[str]:
    """Yield a folder (resolved), and those that it is in."""
    yield folder
    yield from map(str, PurePosixPath(folder).parents)


def _find_work_tree(folder: str) -> str:
    """Return the nearest folder with a `.git`, whatever that is; empty where there is none."""
    return next((at for at in _list_upward(os.path.realpath(folder)) if os.path.lexists(os.path.join(at, ".git"))), "")


def list_programs_of_command(one: SimpleCommand, judged: CommandJudgement) -> list[str]:
    """Return the hooks that a line may run, and the settings files that let a command of git in it run programs."""
    starts = (target for effect in judged.effects if is_hook_effect(effect) for target in effect.targets)
    hooks = [path for folder in starts for path in _list_hooks(folder)]
    return [*hooks, *(path for git in _list_git_folders(_find_start(one)) for path in _list_risky_settings(git))]


def _find_start(one: SimpleCommand) -> str:
    """Return the folder from which git looks for its repository."""
    folder = one.cwd
    for option, value in pairwise(one.argv[1:]):
        folder = os.path.join(folder, value) if option in ("-C", "--git-dir", "--work-tree") else folder
    return os.path.join(folder, *(word.partition("=")[2] for word in one.argv[1:] if word.startswith("--git-dir=")))


def _list_git_folders(folder: str) -> list[str]:
    """Return the folders in which git finds the settings of the repository that a folder is in, and of those inside."""
    found = next(filter(None, map(_git_folder_of, _list_upward(os.path.realpath(folder)))), "")
    if not found:
        return []
    common = read_line(os.path.join(found, "commondir"))
    inner = (os.path.realpath(at) for at, _, names in os.walk(os.path.join(found, "modules")) if "config" in names)
    return [found, *([os.path.realpath(os.path.join(found, common))] if common else []), *islice(inner, _MAX_INNER)]


def _git_folder_of(folder: str) -> str:
    """Return git's folder of a work tree, or the folder itself where it has the shape of one."""
    git = os.path.join(folder, ".git")
    if named := read_line(git).removeprefix("gitdir:").strip():
        return os.path.realpath(os.path.join(folder, named))
    bare = all(os.path.lexists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs"))
    return git if os.path.isdir(git) else folder if bare else ""


def _list_hooks(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError:
        return [folder]
    return [os.path.join(folder, name) for name in names if not name.endswith(".sample")]


def _list_risky_settings(git: str) -> list[str]:
    found: list[str] = []
    for path in (os.path.join(git, name) for name in ("config", "config.worktree")):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read(_MAX_BYTES)
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError):
            found.append(path)
            continue
        if list_harmful_parts(text) or len(text) == _MAX_BYTES:
            found.append(path)
    return found
