"""Reads git's settings as git does: what they say, what else they lead to, and which cannot make it run a program."""

import itertools
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

from msgspec import Struct

from hermes.safety.paths import is_or_below
from hermes.util.file_handles import open_read

GLOBAL_SETTINGS = ("/etc/gitconfig", "~/.gitconfig", "~/.config/git/config")
_MAX_BYTES = 262_144
_MAX_DEPTH = 10
"""git's own bound on settings that include others."""
_MAX_INCLUDED = 64
_MAX_LINKS = 40
_MAX_ENTRIES = 2_000
"""The most entries of a folder of hooks, or of work trees, that are looked at."""
_RACE_NS = 50_000_000
_BLANK = re.compile(r"[ \t\r\n]+|\A\ufeff")
_COMMENT = re.compile(r"[#;][^\n]*\n?")
_HEADING = re.compile(r"\[([A-Za-z0-9.-]+)(?:[ \t\r]+\"((?:[^\"\\\n]|\\[^\n])*)\")?\]")
_VALUE = r"(?:\"(?:[^\"\\\n]|\\(?:\r?\n|[\"\\tbn]))*+\"|\\(?:\r?\n|\Z|[\"\\tbn])|[^\"\\\n#;]++)*+"
_ENTRY = re.compile(rf"([A-Za-z][A-Za-z0-9-]*+)[ \t]*+(?:\r?\n|\Z|=({_VALUE})(?:[#;][^\n]*+)?(?:\n|\Z))")
_NOTHING = re.compile(r"(?:[ \t\r]|\"(?:\\\r?\n)*+\"|\\\r?\n)*+")
"""What at the start of a value adds nothing to it."""
_ESCAPE = re.compile(r"\\(?:\r?\n|.)|[\"\\]")
_ESCAPES = {"\\t": "\t", "\\b": "\b", "\\n": "\n", '\\"': '"', "\\\\": "\\"}
_STRANGE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
"""Signs that end a line, or a text, for some readers and not for others."""
_HARMLESS_KEYS = frozenset(
    str.split(
        """
        core.repositoryformatversion core.filemode core.bare core.logallrefupdates core.ignorecase
        core.precomposeunicode core.symlinks core.autocrlf core.eol core.safecrlf core.compression core.sparsecheckout
        core.sparsecheckoutcone extensions.objectformat extensions.worktreeconfig extensions.partialclone
        extensions.refstorage user.name user.email remote.fetch remote.url remote.pushurl remote.promisor
        remote.partialclonefilter remote.tagopt remote.prune remote.mirror branch.remote branch.merge branch.rebase
        branch.description submodule.url submodule.active submodule.update pull.rebase pull.ff push.default
        push.autosetupremote init.defaultbranch commit.gpgsign gc.auto lfs.repositoryformatversion merge.conflictstyle
        rebase.autostash rerere.enabled fetch.prune advice.detachedhead
        """
    )
)
_SAFE_URL = re.compile(r"(https?|ssh|git|file)://[^\s;\\]+|[\w.@-]+:[\w./~-]+|(?!-)[\w./~@-]+")
_SAFE_VALUE = re.compile(r"[\w./@*+:^~, -]*")
_HOOKS = str.split(
    """
    applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit
    pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update
    reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman
    post-index-change
    """
)


class GitSetting(Struct, frozen=True):
    """A setting as git understands it, section and key in small letters. Without a value it had no sign of equality."""

    section: str
    subsection: str | None
    key: str
    value: str | None

    @property
    def name(self) -> str:
        """The name by which git knows it, such as `remote.origin.url`."""
        return ".".join(one for one in (self.section, self.subsection, self.key) if one is not None)

    @property
    def included(self) -> str:
        """The file of settings that it includes, on whatever condition; empty for other settings."""
        is_path = self.key == "path" and self.section in ("include", "includeif")
        return self.value or "" if is_path else ""

    @property
    def is_harmless(self) -> bool:
        """Whether it cannot make git run a program."""
        kind, value = f"{self.section}.{self.key}", self.value or ""
        if kind not in _HARMLESS_KEYS:
            return False
        if self.key in ("url", "pushurl"):
            return _SAFE_URL.fullmatch(value) is not None
        if kind == "submodule.update":
            return value in ("checkout", "rebase", "merge", "none")
        return _SAFE_VALUE.fullmatch(value) is not None


class SettingPart(Struct, frozen=True):
    """A part of settings as it stands there: a setting, or a heading, a comment, blank lines, what git cannot read."""

    text: str
    setting: GitSetting | None = None
    is_broken: bool = False

    @property
    def is_harmless(self) -> bool:
        """Whether it may stay, whoever has written it, and whatever program reads it."""
        is_plain = not self.is_broken and _STRANGE.search(self.text) is None
        return is_plain and (self.setting is None or self.setting.is_harmless)


def read_parts(text: str) -> Iterator[SettingPart]:
    """Yield the parts of settings, which together are all of the text. After what it cannot read git would stop; what
    follows is read on from the next line.
    """
    section, subsection = "", None
    at = 0
    while at < len(text):
        start, setting, is_broken = at, None, False
        if found := _BLANK.match(text, at) or _COMMENT.match(text, at):
            at = found.end()
        elif found := _HEADING.match(text, at):
            at = found.end()
            section, dot, rest = found[1].lower().partition(".")
            subsection = re.sub(r"\\(.)", r"\1", found[2]) if found[2] is not None else rest if dot else None
        elif found := _ENTRY.match(text, at):
            at = found.end()
            setting = GitSetting(section, subsection, found[1].lower(), _unquote(found[2]))
        else:
            section = "" if text[at] == "[" else section
            at, is_broken = text.find("\n", at) + 1 or len(text), True
        yield SettingPart(text[start:at], setting, is_broken)


def _unquote(value: str | None) -> str | None:
    """Return what a value means that is written as in a file."""
    if value is None:
        return None
    plain = _NOTHING.sub("", value, count=1).rstrip(" \t\r")
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[0], ""), plain)


def strip_harmful_settings(text: str) -> str:
    """Return settings of git's with only what cannot make it run a program, or read settings elsewhere."""
    return _join_parts((part, part.is_harmless) for part in read_parts(text))


def _join_parts(parts: Iterable[tuple[SettingPart, bool]]) -> str:
    """Return the text of the parts that are kept; what followed another part in its line begins a new one."""
    kept: list[str] = []
    for part, is_kept in parts:
        if is_kept:
            kept.append(part.text)
        elif kept and not kept[-1].endswith("\n"):
            kept.append("\n")
    return "".join(kept)


def list_harmful_parts(text: str) -> list[SettingPart]:
    """Return the parts of settings that could make git run a program."""
    return [part for part in read_parts(text) if not part.is_harmless]


def is_harmless_setting(name: str, value: str) -> bool:
    """Return whether a setting of git's (`user.name`, `remote.origin.url`) cannot make it run a program."""
    section, _, rest = name.partition(".")
    return GitSetting(section.lower(), None, rest.rpartition(".")[2].lower(), value).is_harmless


def format_setting(one: GitSetting) -> str:
    """Return a setting as it may stand in a file, with its heading."""
    heading = one.section if one.subsection is None else f"{one.section} {_quote(one.subsection)}"
    return f"\n[{heading}]\n\t{one.key} = {_quote(one.value or '')}\n"


def _quote(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def list_settings(path: str) -> list[GitSetting]:
    """Return the settings in a file; none where there are none, or git could not read the file."""
    parts = _read_file(path)
    is_read = not any(part.is_broken for part in parts)
    return [part.setting for part in parts if is_read and part.setting is not None]


class LedPlaces(Struct, frozen=True):
    """What else a repository makes git obey (absolute, with each link on the way): the files and folders of hooks
    outside of its own, and the settings that its settings include.
    """

    hooks: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


def find_led_places(git: str, home: str, trees: Iterable[str] = ()) -> LedPlaces:
    """Return what the repository of git's folder `git` leads to. `trees` are work trees of it that are known otherwise;
    of a relative path of hooks git makes one in each.
    """
    settings, included = follow_settings((f"{git}/config", f"{git}/config.worktree", *GLOBAL_SETTINGS), home)
    own = [git, os.path.dirname(git), *(os.path.join(git, one) for one in _list_values(settings, "core.worktree"))]
    values = _list_values(settings, "core.hookspath")
    bases = dict.fromkeys((*own, *trees, *_list_work_trees(git))) if values else ()
    hooks = [path for value in values for base in bases for path in _list_hook_places(value, base, own, home)]
    links = (path for folder in (f"{git}/hooks", *hooks) for path in _list_links(folder))
    places = (place for path in (*hooks, *links) for place in trace_links(path))
    return LedPlaces(tuple(dict.fromkeys(places)), included)


def find_global_hooks(tree: str, home: str) -> list[str]:
    """Return where the person's own settings have git look for hooks in a work tree, whatever its repository says."""
    values = _list_values(follow_settings(GLOBAL_SETTINGS, home)[0], "core.hookspath")
    relative = (one for one in values if one[:1] not in ("/", "~"))
    return [path for one in relative for path in _list_hook_places(one, tree, (tree,), home)]


def _list_values(settings: Iterable[GitSetting], name: str) -> list[str]:
    return list(dict.fromkeys(one.value for one in settings if one.name == name and one.value))


def _list_hook_places(value: str, base: str, own: Iterable[str], home: str) -> list[str]:
    """Return the folder that a setting names for hooks, to git in a work tree. In a folder around the repository all
    that a command makes would be a hook: of that the names of hooks are returned.
    """
    folder = os.path.normpath(_expand_path(value, base, home))
    is_around = not os.path.normpath(value).strip("./") or any(is_or_below(one, folder) for one in own)
    return [f"{folder}/{name}" for name in _HOOKS] if is_around else [folder]


def follow_settings(files: Sequence[str], home: str) -> tuple[list[GitSetting], tuple[str, ...]]:
    """Return the settings in files, and in those that they include whatever the condition; and the paths of these."""
    queue = {_expand_path(one, "/", home): 0 for one in files}
    found: list[GitSetting] = []
    waiting = list(queue)
    for path in waiting:
        for setting in (one.setting for one in _read_file(path) if one.setting is not None):
            found.append(setting)
            more = _expand_path(setting.included, os.path.dirname(path), home)
            if setting.included and more not in queue and queue[path] < _MAX_DEPTH and len(queue) < _MAX_INCLUDED:
                queue[more] = queue[path] + 1
                waiting.append(more)
    included = (place for path in waiting[len(files) :] for place in trace_links(path))
    return found, tuple(dict.fromkeys(included))


def trace_links(path: str) -> list[str]:
    """Return the links on the way to a path (absolute), where each lies, and where the path leads in the end."""
    links: list[str] = []
    at, names = "/", path.split("/")[::-1]
    while names:
        name = names.pop()
        if name in ("", ".", ".."):
            at = os.path.dirname(at) if name == ".." else at
            continue
        here = os.path.join(at, name)
        target = _read_link(here) if len(links) < _MAX_LINKS else ""
        if target:
            links.append(here)
            names += target.split("/")[::-1]
        at = here if not target else "/" if target[0] == "/" else at
    return [*links, at]


def _read_link(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""


def _expand_path(value: str, base: str, home: str) -> str:
    """Return a path of a setting as git reads it, absolute."""
    value = value.partition("\0")[0].removeprefix(":(optional)")
    if value == "~" or value.startswith("~/"):
        value = home + value[1:]
    return os.path.join(base, os.path.expanduser(value) if value[:1] == "~" else value)


def _list_work_trees(git: str) -> list[str]:
    """Return the work trees of a repository, and of git's folder of a work tree the one that it is for."""
    found: list[str] = []
    for path in (f"{git}/gitdir", *(f"{one}/gitdir" for one in _list_entries(f"{git}/worktrees"))):
        line = _read_bytes(path).decode("utf-8", "surrogateescape").rstrip("\r\n")
        found += [os.path.dirname(os.path.join(os.path.dirname(path), line))] if line else []
    return found


def _list_links(folder: str) -> list[str]:
    """Return the links in a folder, or the folder itself where it is one."""
    return [path for path in (folder, *_list_entries(folder)) if os.path.islink(path)]


def _list_entries(folder: str) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [one.path for one in itertools.islice(entries, _MAX_ENTRIES)]
    return []


def _read_file(path: str) -> tuple[SettingPart, ...]:
    """Return the parts of a settings file; none where there is none. A file that has not changed is not read again."""
    with suppress(OSError):
        found = os.stat(path)
        read = _read_parts_of if time.time_ns() - found.st_ctime_ns > _RACE_NS else _read_parts_of.__wrapped__
        return read(path, found.st_dev, found.st_ino, found.st_ctime_ns)
    return ()


@lru_cache(maxsize=1_024)
def _read_parts_of(path: str, *_stamp: int) -> tuple[SettingPart, ...]:
    return tuple(read_parts(_read_bytes(path).decode("utf-8", "surrogateescape")))


def read_line(path: str) -> str:
    """Return the first line of a small file; empty where there is none."""
    return _read_bytes(path)[:4_096].partition(b"\n")[0].decode("utf-8", "surrogateescape").strip()


def _read_bytes(path: str) -> bytes:
    """Return what is in a plain file, as much as settings may be; nothing of anything else."""
    with suppress(OSError, ValueError), os.fdopen(open_read(path), "rb") as file:
        return file.read(_MAX_BYTES)
    return b""
