"""Sets of hooks: those of one place, enabled as a whole by the digest of all that they would run."""

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.hooks.definitions import HookDefinitions, read_definitions
from hermes.hooks.hook_files import HookFiles, HookFilesError, find_present_files, list_script_paths
from hermes.safety.paths import is_or_below

_VERSION = ""
"""Hooks have no version of their own."""


class HookSetState(StrEnum):
    """Whether the hooks of a place run."""

    ENABLED = "enabled"
    OFF = "off"
    """The person has not enabled them: nothing of them runs."""
    CHANGED = "changed"
    """They, or a file that they name, were changed since: nothing of them runs, and guards say no."""


class HookPlace(Struct, frozen=True, kw_only=True):
    """A place that holds hooks: `section` is the value of `hooks` there."""

    name: str
    """The name by which the person enables it: `hooks`, `claude`."""
    file: str
    section: object
    is_project: bool = False


class HookSet(Struct, frozen=True, kw_only=True):
    """The hooks of a place as they are now."""

    place: HookPlace
    key: str
    """The key under which the consent is kept."""
    other_key: str
    """The key under which a consent is kept for these hooks without, or with, files of the session's folder."""
    definitions: HookDefinitions
    files: HookFiles
    digest: str
    state: HookSetState
    problem: str = ""
    """Why the digest could not be computed; empty where it could."""
    only_folder: str = ""
    """The only folder for whose sessions a consent holds; empty where it holds for all."""

    def list_kept_files(self) -> tuple[str, ...]:
        """Return the files that no session writes: those of a set that the person has enabled, and the one that it
        stands in.
        """
        return (*self.files.paths, os.path.realpath(self.place.file)) if self.state is not HookSetState.OFF else ()


def name_hook_key(file: str, folder: str = "") -> str:
    """Return the key of consents to the hooks of a file: for all folders, or for one alone."""
    return f"hooks:{file}@{folder}" if folder else f"hooks:{file}"


def read_hook_set(place: HookPlace, folder: str, environ: Mapping[str, str], consents: PluginConsents) -> HookSet:
    """Read the hooks of a place for sessions in a folder. It reads the files that they name, in the caller's thread.

    What lies in the session's folder is the project's: hooks of the home that name such files are enabled for that
    folder alone. A session in the person's home has no project; there only names count that mean other files elsewhere.
    """
    definitions = read_definitions(place.section)

    def list_names() -> Sequence[str]:
        return list_script_paths(definitions.hooks, folder, environ)

    files = HookFiles(to_json(place.section, is_sorted=True), list_names, folder)
    digest = problem = ""
    try:
        digest = files.compute_digest()
    except HookFilesError as error:
        problem = str(error)
    free_key, bound_key = name_hook_key(place.file), name_hook_key(place.file, folder)
    is_bound = place.is_project or _names_project_files(files, definitions, folder, environ)
    return HookSet(
        place=place,
        key=bound_key if is_bound else free_key,
        other_key=free_key if is_bound else bound_key,
        definitions=definitions,
        files=files,
        digest=digest,
        state=_find_state((bound_key, free_key) if is_bound else (free_key, bound_key), digest, consents),
        problem=problem,
        only_folder=folder if is_bound else "",
    )


def _names_project_files(
    files: HookFiles, definitions: HookDefinitions, folder: str, environ: Mapping[str, str]
) -> bool:
    """Return whether commands name files of the session's folder; in one that holds the person's home, only those count
    that the same names do not mean elsewhere.
    """
    if not is_or_below(os.path.realpath(environ.get("HOME") or "/"), folder):
        return any(is_or_below(path, folder) for path in files.paths)
    return files.paths != find_present_files(list_script_paths(definitions.hooks, "/", environ))


def _find_state(keys: Sequence[str], digest: str, consents: PluginConsents) -> HookSetState:
    """Return the state by the consents; where their file is damaged nobody can tell, so guards say no.

    A consent under the second key is to the same place with other files: one that came into the folder, or went.
    """
    try:
        given = [consents.get(key) for key in keys]
    except ConfigError:
        return HookSetState.CHANGED
    if digest and given[0] == PluginConsent(_VERSION, digest):
        return HookSetState.ENABLED
    return HookSetState.CHANGED if any(given) else HookSetState.OFF
