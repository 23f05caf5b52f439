"""Finds what git would run of a repository's own: its hooks, and what its settings name."""

import os

from hermes.safety.shell.findings import Effect

_MAX_BYTES = 262_144


def is_hook_effect(effect: Effect) -> bool:
    """Return whether an effect says that git may run a repository's hooks."""
    return effect.argv[:1] == ("git",) and any(one.endswith("/.git/hooks") for one in effect.targets)


def list_git_programs(effect: Effect) -> list[str] | None:
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
    at = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(at, ".git")):
        if at == "/":
            return []
        at = os.path.dirname(at)
    git = os.path.join(at, ".git")
    if os.path.islink(git) or not os.path.isdir(git) or os.path.lexists(os.path.join(git, "commondir")):
        return None  # a work tree, or a repository that lies elsewhere
    if os.path.lexists(os.path.join(git, "modules")) or os.path.lexists(os.path.join(at, ".gitmodules")):
        return None  # repositories in it have programs of their own
    return _list_hooks(os.path.join(git, "hooks")) + _list_risky_settings(git)


def _list_hooks(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError:
        return [folder]
    return [os.path.join(folder, name) for name in names if not name.endswith(".sample")]


def _list_risky_settings(git: str) -> list[str]:
    from hermes.execution.sandbox.planted_files import harmless

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
        if harmless(text) != text or len(text) == _MAX_BYTES:
            found.append(path)
    return found
