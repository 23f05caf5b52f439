"""Finds what git's remotes stand for: hosts, and folders of this machine."""

import os
import re
from collections.abc import Mapping

from msgspec import structs

from hermes.execution.git_programs import find_config_file
from hermes.execution.git_settings import list_settings
from hermes.safety.git_addresses import find_local_path
from hermes.safety.shell.findings import CommandEffect, CommandJudgement, EffectKind
from hermes.tools.session import ToolContext

_PATH_STARTS = ("/", ".", "file://")
_HOST = re.compile(r"(?:\w+://)?(?:[^@/]*@)?([\w.-]+)[:/]")


def name_remotes(effect: CommandEffect, judged: CommandJudgement, context: ToolContext) -> list[CommandEffect]:
    """Return what a command of git reaches by the remotes that it names: hosts, and the folders of this machine
    (absolute) that are remotes, as what it reads or writes. A remote that is not known keeps its name.
    """
    folder, workspace = _find_start(effect, judged, context), context.places.workspace
    if not folder:
        return [structs.replace(effect, targets=tuple(map(_name_host, effect.targets)))]
    sends, remotes = effect.kind is EffectKind.SENDS, read_remotes(folder, workspace)
    urls = {name: _find_url(name, remotes, sends=sends) for name in effect.targets}
    # git goes to the top of its work tree before it looks for a remote
    top = os.path.dirname(os.path.dirname(find_config_file(folder, workspace))) or folder
    paths = {name: _find_path(url, top, context) for name, url in urls.items()}
    hosts = tuple(_name_host(urls[name] or name) for name, path in paths.items() if not path)
    kind = EffectKind.WRITES if sends else EffectKind.READS
    local = CommandEffect(kind, effect.argv, tuple(filter(None, paths.values())))
    return [one for one in (structs.replace(effect, targets=hosts), local) if one.targets] or [effect]


def _find_start(effect: CommandEffect, judged: CommandJudgement, context: ToolContext) -> str:
    """Return the folder in which a command of git runs; empty where that, or its repository, is not known."""
    elsewhere = any(word.startswith("-") for word in effect.argv[1:2])  # `-C`, `--git-dir`: another repository
    folders = {one.cwd for one in judged.commands if one.argv[: len(effect.argv)] == effect.argv}
    is_known = not elsewhere and "GIT_DIR" not in context.state.environment and len(folders) == 1
    return folders.pop() if is_known else ""


def _find_url(name: str, remotes: Mapping[str, Mapping[str, str]], *, sends: bool) -> str:
    """Return the address of a remote, or the name itself where that is one; empty where it is not known."""
    if name not in remotes:
        return name if ":" in name or name.startswith(_PATH_STARTS) else ""
    urls = remotes[name]
    return (urls.get("pushurl") if sends else None) or urls.get("url") or ""


def _find_path(url: str, top: str, context: ToolContext) -> str:
    """Return the path (absolute) that an address stands for; empty where it is another host's, or only known when the
    command runs.
    """
    path = "" if "$" in url else find_local_path(url)
    return path and os.path.normpath(context.places.expand_path(path, top))


def _name_host(url: str) -> str:
    """Return the host of an address; the address itself where it has none."""
    found = None if find_local_path(url) else _HOST.match(url)
    return found[1] if found else url


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
