"""Regenerable files: output of builds and caches, by their names, and temporary folders of this line's own.

This is the only table of them. Deleting what a name in it matches, or what lies below it, loses nothing, as long as it
is in the session's folder: whichever program deletes it, and whether it was named or searched for.
"""

import re
from collections.abc import Sequence

from hermes.safety.paths import Places
from hermes.safety.shell.call import ProgramCall, is_in_workspace, is_root_like_path, is_under, resolve_path
from hermes.safety.shell.findings import MADE_HERE
from hermes.safety.shell.words import Label, Word, word_set

_REGENERABLE_NAMES = word_set("""
    build builds dist out target obj _build node_modules bower_components elm-stuff __pycache__ htmlcov coverage tmp
    temp CMakeFiles CMakeCache.txt Thumbs.db DerivedData Pods zig-out zig-cache dist-newstyle test-results
    playwright-report .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .nyc_output .tox .nox .venv venv
    .cache .eggs .next .nuxt .output .svelte-kit .astro .angular .turbo .vite .parcel-cache .sass-cache .docusaurus
    .gradle .kotlin .metals .bloop .bsp .stack-work .dart_tool .zig-cache .build .cxx .aws-sam .serverless .terraform
    .ipynb_checkpoints .eslintcache .stylelintcache .jest-cache .webpack .rollup.cache .expo .DS_Store
""")
_REGENERABLE_PATTERN = re.compile(
    r"[\w*?-][\w.*?-]*\.egg-info|cmake-build-[\w*?-]+|bazel-(bin|out|testlogs)|"
    r"[\w*?-][\w.*?-]*\.(o|obj|lo|gch|pyc|pyo|py\[co\]|class|beam|hi|rlib|rmeta|gcda|gcno|gcov|tsbuildinfo|tmp|dSYM)"
)
"""Names that are regenerable by their suffix. Wildcards may come before it, not in it."""
_MAX_NAME = 64
_TOP_FOLDERS = word_set(
    "bin boot dev etc home lib lib32 lib64 media mnt opt proc root run sbin snap srv sys tmp usr var private Users "
    "Applications Library System Volumes nix gnu data cygdrive c d"
)
_MAX_FOLDERS = 2
"""The most folders that a line may have been in: beyond it, where the line runs after a failed `cd` is unknown."""


def is_regenerable_name(name: str) -> bool:
    """Return whether a name, or a pattern of names, matches only regenerable files."""
    return name in _REGENERABLE_NAMES or (len(name) <= _MAX_NAME and _REGENERABLE_PATTERN.fullmatch(name) is not None)


def is_regenerable_path(path: str, places: Places) -> bool:
    """Return whether an absolute path, or a pattern, is in the session's folder and regenerable."""
    if not is_in_workspace(path, places) or is_under(places.home, places.workspace):
        return False
    parts = path[len(places.workspace) :].strip("/").split("/")
    return ".git" not in parts and any(map(is_regenerable_name, parts))


def is_regenerable_here(call: ProgramCall, path: str) -> bool:
    """Return whether a path is regenerable, as far as this session has not moved or linked anything there."""
    places, moved = call.host.places, call.state.moved
    return is_regenerable_path(path, places) and not any(
        is_regenerable_path(one, places) or is_under(path, one) for one in moved
    )


def is_in_workspace_surely(call: ProgramCall) -> bool:
    """Return whether a call surely runs in the session's folder or below it."""
    where = call.state.where
    is_told = where.is_known and (where.is_chained or len(where.visited) <= _MAX_FOLDERS)
    return is_told and all(is_in_workspace(one, call.host.places) for one in where.visited)


def is_lossless_delete(call: ProgramCall, word: Word) -> bool:
    """Return whether deleting what a word names loses only regenerable files.

    A change of folder before it may fail: the word must be regenerable in each folder that the line has been in.
    """
    if word.dynamic:
        return _is_own_temporary(call, word) or (
            word.text == "$()" and Label.REGENERABLE in word.labels and is_in_workspace_surely(call)
        )
    return is_in_workspace_surely(call) and is_regenerable_text(call, word.text)


def is_regenerable_text(call: ProgramCall, text: str) -> bool:
    """Return whether a path, as it is written, is regenerable in each folder that the line has been in."""
    if ".." in text.lstrip("./").split("/"):
        return False
    where = call.state.where
    folders = (where.current,) if where.is_chained else where.visited
    return all(is_regenerable_here(call, resolve_path(text, folder, call.host.places)) for folder in folders)


def _is_own_temporary(call: ProgramCall, word: Word) -> bool:
    """Return whether a word is a temporary file or folder that this line made, or is below one.

    Where making it fails the name is empty: then the rest must not be a path that matters by itself.
    """
    before, mark, rest = word.text.partition(MADE_HERE)
    if not mark or any(MADE_HERE in one for one in call.state.moved) or "$" in before + rest or ".." in rest.split("/"):
        return False
    if re.search(r"[\s*?\[]", before):  # a shell makes several words of it
        return False
    return not rest or (rest[0] == "/" and not re.search(r"[\s*?\[]", rest) and not _is_machine_path(rest, call))


def _is_machine_path(path: str, call: ProgramCall) -> bool:
    """Return whether a path may be one of this machine's, if nothing comes before it."""
    places = call.host.places
    own = {one.split("/")[1] for one in (places.home, places.workspace) if one[:1] == "/" and len(one) > 1}
    return is_root_like_path(path, places) or path.split("/")[1] in own | _TOP_FOLDERS


def are_all_regenerable(patterns: Sequence[str]) -> bool:
    """Return whether each of these patterns, of names or of paths, matches only regenerable files."""
    return bool(patterns) and all(any(map(is_regenerable_name, one.split("/"))) for one in patterns)
