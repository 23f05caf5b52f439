"""Finds where the text that a call returns is from: hosts, files of untrusted folders, earlier untrusted results."""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence

from hermes.core.messages import Provenance, Source
from hermes.execution.base import DeniedPath
from hermes.safety.home_places import PROGRAM_PLACES
from hermes.safety.paths import Places, is_or_below
from hermes.safety.shell.findings import CommandEffect, EffectKind
from hermes.tools.permissions.egress import EGRESS_KINDS, host_from_target
from hermes.tools.session import DOWNLOADS_FOLDER, ToolContext
from hermes.tools.taint import name_source, provenance_from_sources
from hermes.util.file_handles import find_real_path

_LOCAL_REMOTE_VERBS = (("add",), ("set-url",), ("rename",), ("remove",), ("rm",), ("get-url",))


def find_provenance(
    effects: Sequence[CommandEffect],
    paths: Iterable[str],
    context: ToolContext,
    contacted_hosts: Collection[str] | None,
    *,
    runs: bool,
    earlier: Iterable[str] = (),
) -> Provenance | None:
    """Return where the text that a call returns is from, when it is untrusted; None when it can be trusted.

    Something came from the hosts in `contacted_hosts`; None: nobody saw that, and the text of the call is all there is.
    `runs`: a program made the text, which may hold whatever background processes have received. `earlier` are the
    sources of what it has changed or moved since.
    """
    named = (os.path.realpath(one) for effect in effects if effect.kind is EffectKind.READS for one in effect.targets)
    files = (*paths, *named)
    hosts = [
        *(_list_named_hosts(effects) if contacted_hosts is None else ()),
        *sorted(_list_process_hosts(context, files, runs=runs).union(contacted_hosts or ())),
    ]
    return provenance_from_sources(_join_sources(hosts, files, context) | dict.fromkeys(earlier))


def list_sources_before(kept: Iterable[str], changed: Iterable[str], context: ToolContext) -> list[str]:
    """Return the sources of what a call keeps while it changes it: they are found as long as it is what they stand for.

    `kept` are the files that it is known to keep text of, `changed` what it may move or change in whatever way.
    """
    files = [one for one in kept if os.path.lexists(one)]
    found = _join_sources(sorted(_list_process_hosts(context, files, runs=False)), files, context)
    for place in changed:
        found |= dict.fromkeys(context.taint_marks.find_sources(place))
    return list(found)


def list_program_places(context: ToolContext, cwd: str, opened: Iterable[DeniedPath]) -> Iterator[str]:
    """Yield the places whose files a program may print: its folder, the workspace, and what is open to it or was to a
    process in the background.
    """
    processes = context.state.started_processes
    more = processes.list_opened() if processes is not None else ()
    yield from map(os.path.realpath, (cwd, context.places.workspace, *(one.path for one in (*opened, *more))))


def _join_sources(hosts: Iterable[str], files: Sequence[str], context: ToolContext) -> dict[str, None]:
    sources = dict.fromkeys(f"{Source.WEB}:{host}" for host in hosts)
    spill = f"{find_real_path(str(context.spill_folder))}/" if files else ""
    for path in files:
        sources |= dict.fromkeys(_list_file_sources(path, context, spill))
    return sources


def _list_process_hosts(context: ToolContext, files: Iterable[str], *, runs: bool) -> set[str]:
    """Return the hosts from which something came to processes: all of them where a program made the text, else those
    that began before one of the files was changed.
    """
    processes = context.state.started_processes
    if processes is None:
        return set()  # to ask for them would say that there may be some, and the whole workspace is saved then
    if runs:
        return processes.list_contacted_hosts()
    return set().union(*(processes.list_contacted_hosts(_get_change_time(one)) for one in files))


def _list_named_hosts(effects: Iterable[CommandEffect]) -> Iterator[str]:
    """Yield the hosts that a call reaches by its own words."""
    for effect in effects:
        if effect.kind in EGRESS_KINDS and not _is_local_git_command(effect.argv):
            yield from map(host_from_target, effect.targets or ("a host that cannot be told",))


def _is_local_git_command(argv: Sequence[str]) -> bool:
    """Return whether a git command only stores an address, and reaches no host by it."""
    verb = argv[:3]
    return verb[:2] == ("git", "config") or (
        verb[:2] == ("git", "remote") and verb[2:] in _LOCAL_REMOTE_VERBS and not {*argv} & {"-f", "--fetch"}
    )


def _get_change_time(path: str) -> float:
    """Return when a file was changed, by whatever program; before all time when it is no file that exists."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return -1.0
    return status.st_ctime if stat.S_ISREG(status.st_mode) else -1.0


def _list_file_sources(path: str, context: ToolContext, spill: str) -> Sequence[str]:
    """Return the sources of the text that a file holds: none where the person trusts its folder."""
    if path.startswith(spill):
        # A result that was too long for the conversation is as strange as what stands in it.
        downloaded = (f"{Source.WEB}:{DOWNLOADS_FOLDER}",) if path.startswith(f"{spill}{DOWNLOADS_FOLDER}/") else ()
        return (*context.state.taint.list_sources(), *downloaded)
    made = context.state.written_files.get(path)
    # What the session made itself, others may have changed since: a mark holds for the content that is there.
    known = (*(made.split("\n") if made else ()), *context.taint_marks.find_sources(path))
    if known or made is not None:
        return known
    folder = context.trust.find_untrusted_folder(path, context.places.workspace)
    return (name_source(Source.FILE, folder),) if folder and not _is_tool(path, context.places) else ()


def _is_tool(path: str, places: Places) -> bool:
    """Return whether a path (resolved) is a program of the person's own tool chains: called by its path it says no more
    than by its name. What else lies there, such as packages and what they say of themselves, is none.
    """
    if is_or_below(path, places.workspace) or not path.startswith(f"{places.home}/"):
        return False
    is_chain = any(is_or_below(path, f"{places.home}/{one}") for one in PROGRAM_PLACES)
    return is_chain and os.path.isfile(path) and os.access(path, os.X_OK)
