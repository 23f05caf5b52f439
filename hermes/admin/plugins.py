"""Other people's code in a home: hooks, installed packages and folder plug-ins; what they would run, and whether they
may.
"""

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from hermes.admin.config import change_settings, locate_writable_home
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.config.trusted_folders import TrustFile
from hermes.context.engine import list_engine_names
from hermes.core.errors import ConfigError, NotFoundError
from hermes.hooks.hook_sets import HookSet, HookSetState
from hermes.hooks.statistics_file import HookRecord, read_records
from hermes.i18n.messages import N_
from hermes.memory.provider import list_memory_providers
from hermes.plugin_host.description import describe_manifest
from hermes.plugin_host.folders import PLUGINS_FOLDER, PROJECT_FOLDER, PluginFolderRow, list_plugin_folders
from hermes.plugin_host.scaffold import write_example_plugin
from hermes.plugins import InstalledPackage, list_packages, normalize_package_name, suggest_name
from hermes.sessions.plugins.hooks import list_untrusted_hook_files, read_hook_sets


class PluginKind(StrEnum):
    """What kind of other people's code something is."""

    HOOKS = "hooks"
    PACKAGE = "package"
    FOLDER = "folder"


class PluginState(StrEnum):
    """Whether it runs."""

    ENABLED = "enabled"
    OFF = "off"
    CHANGED = "changed"
    """It was enabled, and is another one now: nothing of it runs."""
    INVALID = "invalid"
    """It cannot be used as it stands."""
    UNTRUSTED = "untrusted"
    """It lies in a folder that the person does not trust."""


class ProviderKind(StrEnum):
    """What there is one of at a time, and a setting chooses."""

    ENGINE = "engine"
    """The context engine: `context.engine`."""
    MEMORY = "memory"
    """One more memory beside the files: `memory.provider`."""


class ProviderChoice(Struct, frozen=True):
    """A name that may be chosen, and whether it is in use."""

    name: str
    used: bool = False


NO_PROVIDER = "none"
"""Stands for no further memory."""
_PROVIDER_SETTINGS = {ProviderKind.ENGINE: ("context", "engine"), ProviderKind.MEMORY: ("memory", "provider")}
_PROVIDER_OFFERS = {ProviderKind.ENGINE: "context_engines", ProviderKind.MEMORY: "memory_providers"}


class PluginRow(Struct, frozen=True, kw_only=True):
    """A piece of other people's code as a list shows it."""

    name: str
    kind: PluginKind
    version: str
    state: PluginState
    place: str
    """The file, the folder or the package that it is."""
    offers: tuple[str, ...] = ()
    """What it runs or adds, a line each."""
    problems: tuple[str, ...] = ()
    """What of it does not run, and why."""
    key: str = ""
    other_key: str = ""
    """Another key under which there may be a consent to it."""
    digest: str = ""
    hooks: tuple[str, ...] = ()
    """The events at which a folder plug-in is asked."""
    is_confined: bool = False
    """Whether it runs in the sandbox: all else has every right of the person."""

    @property
    def consent(self) -> PluginConsent:
        """The consent to it as it is now."""
        return PluginConsent(self.version, self.digest, self.hooks)


class PluginAdmin:
    """Lists, enables and disables other people's code, as a session in a folder would use it.

    Methods raise ConfigError for a damaged file of consents and NotFoundError for an unknown name. They read the disk
    in the caller's thread.
    """

    def __init__(self, environ: Mapping[str, str], folder: str = "") -> None:
        self._environ = environ
        self._home: HermesHome = locate_home(environ)
        self._folder = os.path.realpath(folder or os.getcwd())
        self._consents = PluginConsents(self._home.consent_file)

    def list_rows(self) -> list[PluginRow]:
        """Return everything that is there, enabled or not. Nothing of it is imported or started."""
        self._consents.list_all()
        settings = load_settings(self._home).settings
        sets = read_hook_sets(self._home, settings, self._folder, self._environ)
        trust = TrustFile(self._home.trust_file)
        folders = list_plugin_folders(self._home.root, self._folder, trust, self._consents)
        rows = [*map(_describe_hook_set, sets), *map(self._describe_package, list_packages())]
        return [*rows, *map(_describe_folder, folders)]

    def create_folder(self, name: str) -> Path:
        """Write an example plug-in into a new folder of the home and return the folder. Raises ConfigError."""
        self._home.ensure_exists()
        return write_example_plugin(self._home.root / PLUGINS_FOLDER, name)

    def find(self, name: str) -> PluginRow:
        """Return what is meant by a name. Raises NotFoundError."""
        rows = self.list_rows()
        wanted = normalize_package_name(name)
        for row in rows:
            if row.name == name or (row.kind is PluginKind.PACKAGE and row.name == wanted):
                return row
        if not TrustFile(self._home.trust_file).is_trusted_folder(self._folder) and (
            file := list_untrusted_hook_files(self._folder).get(name)
        ):
            raise NotFoundError(
                N_("You do not trust this folder, so {file} is not read.", file=file),
                N_("If its files are yours, or you know them: `hermes trust .`, then again."),
            )
        hint = suggest_name(name, [row.name for row in rows]) or N_("`hermes plugins list` shows what there is.")
        raise NotFoundError(N_("There is no plug-in {name!r}.", name=name[:80]), hint)

    def list_hook_records(self) -> list[HookRecord]:
        """Return how often hooks were called lately, how long they took and how often they could not answer."""
        return read_records(self._home.hook_log)

    def enable(self, row: PluginRow) -> None:
        """Enable something as it was shown. Raises ConfigError where it cannot be used, or has changed since."""
        if row.state in (PluginState.INVALID, PluginState.UNTRUSTED) or not row.digest:
            reason = row.problems[0] if row.problems else N_("It cannot be read.")
            raise ConfigError(N_("{name} cannot be enabled: {reason}", name=row.name, reason=reason))
        now = self.find(row.name)
        if now.digest != row.digest:
            raise ConfigError(N_("{name} has just changed, so it was not enabled.", name=row.name))
        self._consents.enable(row.key, row.consent)

    def disable(self, name: str) -> bool:
        """Disable something, also what is not there any more; return False where it was not enabled."""
        try:
            row = self.find(name)
            keys = [one for one in (row.key, row.other_key) if one]
        except NotFoundError:
            own = f"{self._folder}/{PROJECT_FOLDER}/{name}"
            keys = [one for one in self._consents.list_all() if one.partition(":")[2] in (name, name.lower(), own)]
            if not keys:
                raise
            keys = keys[:1]
        return bool([key for key in keys if self._consents.disable(key)])

    def list_providers(self, kind: ProviderKind) -> list[ProviderChoice]:
        """Return what may be chosen: what is built in, and what enabled packages offer."""
        settings = load_settings(self._home).settings
        if kind is ProviderKind.ENGINE:
            names, used = [*list_engine_names()], settings.context.engine
        else:
            names, used = [NO_PROVIDER, *list_memory_providers()], settings.memory.provider or NO_PROVIDER
        names += [name for name, package in self._list_offers(kind) if self._consents.is_enabled_package(package)]
        return [ProviderChoice(name, name == used) for name in dict.fromkeys(names)]

    def use_provider(self, kind: ProviderKind, name: str) -> bool:
        """Write into `config.yaml` which one is used; return False where it is already. Raises NotFoundError for an
        unknown name, ConfigError for one of a package that is not enabled, or where the file cannot be changed.
        """
        choices = self.list_providers(kind)
        chosen = next((one for one in choices if one.name == name), None)
        if chosen is None:
            for offered, package in self._list_offers(kind):
                if offered == name:
                    raise ConfigError(
                        N_(
                            "{name} is offered by the package {package}, which is not enabled.",
                            name=name,
                            package=package.name,
                        ),
                        N_("If you trust it, `hermes plugins enable {package}` enables it.", package=package.name),
                    )
            names = [one.name for one in choices]
            hint = suggest_name(name, names) or N_("Possible: {names}.", names=", ".join(names))
            raise NotFoundError(N_("There is no {kind} {name!r}.", kind=kind.value, name=name[:80]), hint)
        if chosen.used:
            return False
        value = "" if name == NO_PROVIDER else name
        change_settings(locate_writable_home(self._environ), {_PROVIDER_SETTINGS[kind]: value})
        return True

    def _list_offers(self, kind: ProviderKind) -> list[tuple[str, InstalledPackage]]:
        group = _PROVIDER_OFFERS[kind]
        return [(name, one) for one in list_packages() for offered, name in one.offers if offered == group]

    def _describe_package(self, package: InstalledPackage) -> PluginRow:
        consent = self._consents.get(package.key)
        is_same = consent == PluginConsent(package.version, package.digest)
        state = PluginState.ENABLED if is_same else PluginState.CHANGED if consent else PluginState.OFF
        return PluginRow(
            name=package.name,
            kind=PluginKind.PACKAGE,
            version=package.version,
            state=state,
            place=package.name,
            offers=tuple(f"{kind}: {name}" for kind, name in package.offers),
            key=package.key,
            digest=package.digest,
        )


def _describe_folder(row: PluginFolderRow) -> PluginRow:
    folder = row.folder
    return PluginRow(
        name=row.name,
        kind=PluginKind.FOLDER,
        version=folder.manifest.version if folder is not None else "",
        state=PluginState(row.state.value),
        place=row.path,
        offers=describe_manifest(folder.manifest) if folder is not None else (),
        problems=(row.problem,) if row.problem else (),
        key=row.key,
        digest=folder.digest if folder is not None else "",
        hooks=folder.manifest.hooks if folder is not None else (),
        is_confined=True,
    )


_HOOK_STATES = {
    HookSetState.ENABLED: PluginState.ENABLED,
    HookSetState.OFF: PluginState.OFF,
    HookSetState.CHANGED: PluginState.CHANGED,
}


def _describe_hook_set(one: HookSet) -> PluginRow:
    refused = [N_("{name}: {reason}", name=bad.name, reason=bad.reason) for bad in one.definitions.refused]
    return PluginRow(
        name=one.place.name,
        kind=PluginKind.HOOKS,
        version="",
        state=PluginState.INVALID if one.problem else _HOOK_STATES[one.state],
        place=one.place.file,
        offers=(*_list_commands(one), *(f"file: {path}" for path in one.files.paths), *_list_bounds(one)),
        problems=(*((one.problem,) if one.problem else ()), *refused),
        key=one.key,
        other_key=one.other_key,
        digest=one.digest,
    )


def _list_bounds(one: HookSet) -> Sequence[str]:
    """Return the line that says where a consent holds, unless it holds everywhere."""
    return [N_("for sessions in {folder} alone", folder=one.only_folder)] if one.only_folder else []


def _list_commands(one: HookSet) -> Sequence[str]:
    return [
        f"{hook.name}{f' [{hook.matcher.text}]' if hook.matcher.text else ''}: {hook.command}"
        for hook in one.definitions.hooks
    ]
