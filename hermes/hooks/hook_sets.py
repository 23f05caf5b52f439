"""Sets of hooks: those of one place, enabled as a whole by the digest of all that they would run."""

import os
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.hooks.definitions import HookDefinitions, read_definitions
from hermes.hooks.hook_files import HookFiles, HookFilesError, list_script_paths
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
    definitions: HookDefinitions
    files: HookFiles
    digest: str
    state: HookSetState
    problem: str = ""
    """Why the digest could not be computed; empty where it could."""
    only_folder: str = ""
    """The only folder for whose sessions a consent holds; empty where it holds for all."""

    def list_kept_files(self) -> tuple[str, ...]:
        """Return the files that no session writes: those of a set that the person has enabled."""
        return self.files.paths if self.state is not HookSetState.OFF else ()


def read_hook_set(place: HookPlace, folder: str, environ: Mapping[str, str], consents: PluginConsents) -> HookSet:
    """Read the hooks of a place for sessions in a folder. It reads the files that they name, in the caller's thread.

    What lies in the session's folder is the project's: hooks of the home that name such files are enabled for that
    folder alone. A session in the person's home has no project; there only names count that mean other files elsewhere.
    """
    definitions = read_definitions(place.section)
    paths = list_script_paths(definitions.hooks, folder, environ)
    if is_or_below(os.path.realpath(environ.get("HOME") or "/"), folder):
        is_bound = place.is_project or paths != list_script_paths(definitions.hooks, "/", environ)
    else:
        is_bound = place.is_project or any(is_or_below(path, folder) for path in paths)
    key = f"hooks:{place.file}" + (f"@{folder}" if is_bound else "")
    files = HookFiles(to_json(place.section, is_sorted=True), paths)
    digest = problem = ""
    try:
        digest = files.compute_digest()
    except HookFilesError as error:
        problem = str(error)
    return HookSet(
        place=place,
        key=key,
        definitions=definitions,
        files=files,
        digest=digest,
        state=_find_state(key, digest, consents),
        problem=problem,
        only_folder=folder if is_bound else "",
    )


def _find_state(key: str, digest: str, consents: PluginConsents) -> HookSetState:
    """Return the state by the consents; where their file is damaged nobody can tell, so guards say no."""
    try:
        consent = consents.get(key)
    except ConfigError:
        return HookSetState.CHANGED
    if consent is None:
        return HookSetState.OFF
    return HookSetState.ENABLED if digest and consent == PluginConsent(_VERSION, digest) else HookSetState.CHANGED
