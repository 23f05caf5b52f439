"""The box that a folder plug-in runs in: what its process sees of this machine, and the limits that it runs under."""

import contextlib
import os
import resource
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.layout import AccessLayout, PathAccess
from hermes.execution.sandbox import program_box
from hermes.execution.sandbox.landlock import READ_RIGHTS
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxSupport
from hermes.execution.sandbox.program_box import SYSTEM_PATH, BoxedCall, ProgramBox, find_interpreter, proxy_variables
from hermes.i18n.messages import N_
from hermes.plugin_host.manifest import PluginManifest, WorkspaceAccess
from hermes.safety.paths import Places, holds_home, is_or_below, is_root_like, list_secret_paths

AUTHOR_FOLDER = Path(__file__).with_name("author")
"""Holds the module `hermes_plugin`, which plug-ins written in Python can import."""
_MAX_FILE_BYTES = 64 * 1024 * 1024
_MAX_OPEN_FILES = 128
_MAX_THREADS = 64
_CPU_SECONDS = 300
"""Seconds of processor time after which a process is ended; a plug-in that has done nothing wrong is started again."""
_MAX_SECRETS = 64
_START_PYTHON = (
    "import sys, runpy; sys.path[:0] = sys.argv[1:3]; del sys.argv[:3]; runpy.run_path(sys.argv[0], None, '__main__')"
)


class BoxPlan(Struct, frozen=True, kw_only=True):
    """What a box is made for: a plug-in's manifest, its files, its data, and the workspace where it may see one.

    `variables` are those that the manifest names, as the person has them.
    """

    manifest: PluginManifest
    files: str
    data: str
    workspace: str = ""
    layout: AccessLayout | None = None
    """How the workspace appears where it may be written; None: it is only read."""
    places: Places | None = None
    variables: Mapping[str, str] = {}


def explain_missing_box(manifest: PluginManifest, support: SandboxSupport) -> str:
    """Return why a plug-in cannot be confined here, as the end of a sentence; empty where it can."""
    wants = manifest.capabilities
    is_bubblewrap = support.mechanism is SandboxMechanism.BUBBLEWRAP
    gaps = (
        (
            wants.workspace is WorkspaceAccess.WRITE and not is_bubblewrap,
            N_("it wants to write the workspace, and only bubblewrap can keep what programs obey in it"),
        ),
        (
            bool(wants.processes) and not (is_bubblewrap and os.geteuid()),
            N_("it wants processes, and only bubblewrap under an ordinary user can count them"),
        ),
    )
    missing = program_box.explain_missing_box(support, has_network=bool(manifest.hosts))
    return missing or next((reason for is_there, reason in gaps if is_there), "")


@contextlib.contextmanager
def make_boxed_call(
    plan: BoxPlan, support: SandboxSupport, proxy_end: socket.socket | None = None
) -> Iterator[BoxedCall]:
    """Yield the call; its handles are open until the end of the block. `proxy_end` leads to the proxy of its hosts.

    Raises ToolError where the plug-in cannot be confined, and OSError.
    """
    why = explain_missing_box(plan.manifest, support)
    if why:
        raise ToolError(why)
    with program_box.make_boxed_call(_build_box(plan, support), support, proxy_end) as call:
        yield call


def _build_box(plan: BoxPlan, support: SandboxSupport) -> ProgramBox:
    chosen = plan.manifest.capabilities
    counted = [(resource.RLIMIT_NPROC, chosen.processes + _MAX_THREADS)] if chosen.processes else []
    mounts: list[str] = []
    rules: list[tuple[str, int]] = []
    if chosen.workspace is not WorkspaceAccess.NONE:
        unseen = _check_workspace(plan)
        if unseen and support.mechanism is SandboxMechanism.LANDLOCK:
            raise ToolError(N_("it wants to see the workspace, where keys are, and only bubblewrap can hide them"))
        mounts = _list_workspace_mounts(plan)
        for path in unseen:
            is_folder = os.path.isdir(path)
            mounts += ["--tmpfs", path, "--remount-ro", path] if is_folder else ["--ro-bind", "/dev/null", path]
        rules.append((plan.workspace, READ_RIGHTS))
    return ProgramBox(
        program=_find_program(plan),
        folder=plan.files,
        variables=_list_variables(plan),
        shown=(str(AUTHOR_FOLDER), plan.files),
        data=plan.data,
        mounts=tuple(mounts),
        rules=tuple(rules),
        limits=(
            (resource.RLIMIT_AS, chosen.memory << 20),
            (resource.RLIMIT_CPU, _CPU_SECONDS),
            (resource.RLIMIT_FSIZE, _MAX_FILE_BYTES),
            (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
            (resource.RLIMIT_MEMLOCK, 0),
            *counted,
        ),
        has_network=bool(plan.manifest.hosts),
        can_start_processes=bool(chosen.processes),
    )


def _find_program(plan: BoxPlan) -> tuple[str, ...]:
    """Return the call of the plug-in as it is inside. Raises ToolError for a program that is not there."""
    first, *rest = plan.manifest.run
    if first == "python":
        if not rest:
            raise ToolError(N_("its `run` names no file for Python"))
        start = ("-I", "-S", "-u", "-c", _START_PYTHON, str(AUTHOR_FOLDER), plan.files)
        return (find_interpreter(), *start, *rest)
    if "/" in first:
        return (os.path.normpath(os.path.join(plan.files, first)), *rest)
    for folder in SYSTEM_PATH.split(":"):
        if os.access(found := os.path.join(folder, first), os.X_OK):
            return (found, *rest)
    raise ToolError(N_("there is no program {name} in {PATH}", name=first[:80], PATH=SYSTEM_PATH))


def _list_variables(plan: BoxPlan) -> dict[str, str]:
    return {
        **plan.variables,
        **(proxy_variables() if plan.manifest.hosts else {}),
        "PATH": SYSTEM_PATH,
        "HOME": plan.data,
        "TMPDIR": plan.data,
        "LANG": "C.UTF-8",
        "MALLOC_ARENA_MAX": "1",  # each further one of a thread's takes address space, of which there is a limit
        "PYTHONDONTWRITEBYTECODE": "1",
        "HERMES_PLUGIN": plan.manifest.name,
        "HERMES_PLUGIN_DATA": plan.data,
    }


def _check_workspace(plan: BoxPlan) -> tuple[str, ...]:
    """Return what of the workspace must stay unseen. Raises ToolError for a workspace that is not shown at all."""
    places = plan.places
    if places is None or not plan.workspace:
        raise ToolError(N_("it wants to see the workspace, and there is none"))
    if is_root_like(plan.workspace, places) or holds_home(plan.workspace, places):
        raise ToolError(N_("it wants to see the workspace, which is a home or holds one"))
    if is_or_below(plan.workspace, places.hermes):
        raise ToolError(N_("it wants to see the workspace, which lies in Hermes' own folder"))
    found = [one for one in list_secret_paths(places) if is_or_below(one, plan.workspace) and os.path.lexists(one)]
    if len(found) > _MAX_SECRETS or any(is_or_below(plan.workspace, one) for one in list_secret_paths(places)):
        raise ToolError(N_("it wants to see the workspace, where keys are"))
    return tuple(found)


def _list_workspace_mounts(plan: BoxPlan) -> list[str]:
    """Return the mounts of the workspace: where it may be written, what is fixed in it stays, and cannot be moved."""
    layout = plan.layout
    if layout is None:
        return ["--ro-bind", plan.workspace, plan.workspace]
    options: list[str] = []
    for path in sorted({*layout.access_by_path, *layout.pinned}, key=lambda one: one.split("/")):
        is_read = layout.access_by_path.get(path) is PathAccess.READ
        options += ["--ro-bind" if is_read else "--bind", path, path]
    return options
