"""What can be made again: output of builds and caches, by the names that they go by, and folders of this line's own.

The only table of it. Deleting what a name in it stands for, or what lies below it, loses nothing, as long as it is in
the session's folder: whichever program deletes it, and whether it was named or searched for.
"""

import re
from collections.abc import Sequence

from hermes.safety.places import Places
from hermes.safety.shell.call import Call, inside, resolve, root_like, under
from hermes.safety.shell.words import MADE_HERE, REMADE, Word
from hermes.safety.shell.words import words as word_set

_NAMES = word_set(
    """
    build builds dist out target obj _build node_modules bower_components elm-stuff __pycache__ htmlcov coverage tmp
    temp CMakeFiles CMakeCache.txt Thumbs.db DerivedData Pods zig-out zig-cache dist-newstyle test-results
    playwright-report .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .nyc_output .tox .nox .venv venv
    .cache .eggs .next .nuxt .output .svelte-kit .astro .angular .turbo .vite .parcel-cache .sass-cache .docusaurus
    .gradle .kotlin .metals .bloop .bsp .stack-work .dart_tool .zig-cache .build .cxx .aws-sam .serverless .terraform
    .ipynb_checkpoints .eslintcache .stylelintcache .jest-cache .webpack .rollup.cache .expo .DS_Store
    """
)
_PATTERN = re.compile(
    r"[\w*?-][\w.*?-]*\.egg-info|cmake-build-[\w*?-]+|bazel-(bin|out|testlogs)|"
    r"[\w*?-][\w.*?-]*\.(o|obj|lo|gch|pyc|pyo|py\[co\]|class|beam|hi|rlib|rmeta|gcda|gcno|gcov|tsbuildinfo|tmp|dSYM)"
)
"""Names that say it by their end. What stands before may be a wildcard, the end may not."""
_LONGEST = 64
_TOPS = word_set(
    "bin boot dev etc home lib lib32 lib64 media mnt opt proc root run sbin snap srv sys tmp usr var private Users "
    "Applications Library System Volumes nix gnu data cygdrive c d"
)
_FOLDERS = 2
"""Folders that a line may have been in: which of more it runs in when a change of folder fails cannot be told."""


def named(name: str) -> bool:
    """Whether a name, or a pattern of names, stands only for what can be made again."""
    return name in _NAMES or (len(name) <= _LONGEST and _PATTERN.fullmatch(name) is not None)


def below(path: str, places: Places) -> bool:
    """Whether an absolute path, or what a pattern finds, is in the session's folder and can be made again."""
    if not inside(path, places) or under(places.home, places.workspace):
        return False
    parts = path[len(places.workspace) :].strip("/").split("/")
    return ".git" not in parts and any(map(named, parts))


def made_again(call: Call, path: str) -> bool:
    """The same, as far as this session has not moved or linked anything there."""
    places, moved = call.host.places, call.state.moved
    return below(path, places) and not any(below(one, places) or under(path, one) for one in moved)


def settled(call: Call) -> bool:
    """Whether a call surely runs here, in the session's folder or below it."""
    where = call.state.where
    return (
        where.told
        and (where.chained or len(where.been) <= _FOLDERS)
        and all(inside(one, call.host.places) for one in where.been)
    )


def loses_nothing(call: Call, word: Word) -> bool:
    """Whether deleting what a word names loses nothing that could not be made again.

    A change of folder before it may fail: the word has to say so in each folder that the line has been in.
    """
    if word.dynamic:
        return _own(call, word) or (word.text == "$()" and REMADE in word.labels and settled(call))
    return settled(call) and here(call, word.text)


def here(call: Call, text: str) -> bool:
    """Whether a path, as it is written, can be made again in each folder that the line has been in."""
    if ".." in text.lstrip("./").split("/"):
        return False
    where = call.state.where
    folders = (where.now,) if where.chained else where.been
    return all(made_again(call, resolve(text, folder, call.host.places)) for folder in folders)


def _own(call: Call, word: Word) -> bool:
    """Whether a word is a temporary file or folder that this line made, or is below one.

    Where making it fails nothing stands in its place: then what follows must not be a path that matters by itself.
    """
    before, mark, rest = word.text.partition(MADE_HERE)
    if not mark or any(MADE_HERE in one for one in call.state.moved) or "$" in before + rest or ".." in rest.split("/"):
        return False
    if re.search(r"[\s*?\[]", before):  # a shell makes several words of it
        return False
    return not rest or (rest[0] == "/" and not re.search(r"[\s*?\[]", rest) and not _is_a_place(rest, call))


def _is_a_place(path: str, call: Call) -> bool:
    """Whether a path may be one of this machine's, should nothing stand before it."""
    places = call.host.places
    own = {one.split("/")[1] for one in (places.home, places.workspace) if one[:1] == "/" and len(one) > 1}
    return root_like(path, places) or path.split("/")[1] in own | _TOPS


def all_named(patterns: Sequence[str]) -> bool:
    """Whether every one of these patterns, of names or of paths, stands only for what can be made again."""
    return bool(patterns) and all(any(map(named, one.split("/"))) for one in patterns)
