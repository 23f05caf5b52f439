"""Finds what git's remotes stand for: hosts, and folders of this machine."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import structs

from hermes.execution.git_programs import find_config_file
from hermes.execution.git_settings import list_settings
from hermes.safety.shell.findings import CommandEffect, CommandJudgement, EffectKind
from hermes.tools.session import ToolContext

_HOST = re.compile(r"(?:\w+://)?(?:[^@/]*@)?([\w.-]+)[:/]")
_LOCAL = ("/", ".", "file://")


def name_remotes(effect: CommandEffect, judged: CommandJudgement, context: ToolContext) -> list[CommandEffect]:
    """Return what a command of git reaches: hosts, and the folders of this machine (absolute) that are remotes, as what
    it reads or writes. A remote that is not known keeps its name.
    """
    folder = _find_start(effect, judged, context)
    if not folder or not effect.targets:
        return [effect]
    sends, workspace = effect.kind is EffectKind.SENDS, context.places.workspace
    remotes = read_remotes(folder, workspace)
    urls = {name: _find_url(name, remotes, sends=sends) for name in effect.targets}
    hosts = tuple(_name_host(url) or name for name, url in urls.items() if not url.startswith(_LOCAL))
    # git goes to the top of its work tree before it looks for a remote
    top = os.path.dirname(os.path.dirname(find_config_file(folder, workspace))) or folder
    kind = EffectKind.WRITES if sends else EffectKind.READS
    local = CommandEffect(kind, effect.argv, tuple(_list_local(urls.values(), top)))
    return [one for one in (structs.replace(effect, targets=hosts), local) if one.targets]


def _find_start(effect: CommandEffect, judged: CommandJudgement, context: ToolContext) -> str:
    """Return the folder in which a command of git runs; empty where that, or its repository, is not known."""
    elsewhere = any(word.startswith("-") for word in effect.argv[1:2])  # `-C`, `--git-dir`: another repository
    folders = {one.cwd for one in judged.commands if one.argv[: len(effect.argv)] == effect.argv}
    is_known = not elsewhere and "GIT_DIR" not in context.state.environment and len(folders) == 1
    return folders.pop() if is_known else ""


def _list_local(urls: Iterable[str], top: str) -> Iterator[str]:
    """Yield the folders (absolute) of the addresses that are some of this machine."""
    for url in urls:
        if url.startswith(_LOCAL):
            yield os.path.normpath(os.path.join(top, url.removeprefix("file://")))


def _find_url(name: str, remotes: Mapping[str, Mapping[str, str]], *, sends: bool) -> str:
    """Return the address of a remote, or the name itself where that is a path; empty where it is not known."""
    if "." in name or "/" in name:
        return name if name.startswith(_LOCAL) else ""
    urls = remotes.get(name, {})
    return (urls.get("pushurl") if sends else None) or urls.get("url") or ""


def _name_host(url: str) -> str:
    found = _HOST.match(url)
    return found[1] if found else ""


def read_remotes(folder: str, workspace: str) -> dict[str, dict[str, str]]:
    """Return the addresses (`url`, `pushurl`) of each remote of the repository that a folder of the workspace is in.

    Those are left out that have several of a kind, and all where settings rewrite addresses.
    """
    settings = list_settings(find_config_file(folder, workspace))
    if any(one.key in ("insteadof", "pushinsteadof") or one.section in ("include", "includeif") for one in settings):
        return {}
    remotes: dict[str, dict[str, str]] = {}
    several: set[str] = set()
    for one in settings:
        if one.section == "remote" and one.subsection is not None and one.key in ("url", "pushurl"):
            named = remotes.setdefault(one.subsection, {})
            several |= {one.subsection} if one.key in named else set()
            named[one.key] = one.value or ""
    return {name: {} if name in several else named for name, named in remotes.items()}
