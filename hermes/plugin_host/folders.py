"""Folders that hold plug-ins: read as bytes, told apart by a digest of all their files, and never imported."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.config.trusted_folders import TrustFile
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_
from hermes.plugin_host.manifest import MANIFEST_FILE, PluginManifest, parse_manifest
from hermes.util.text import to_one_line

PLUGINS_FOLDER = "plugins"
PROJECT_FOLDER = ".hermes/plugins"
MAX_FILES = 1_000
MAX_BYTES = 20 * 1024 * 1024
"""The most files of a plug-in, and the most bytes of all of them."""
_MAX_PLUGINS = 100
"""The most plug-ins of one folder that are looked at."""
_MAX_DEPTH = 16
_SKIPPED = frozenset({"__pycache__", ".git"})
"""Folders that are not part of a plug-in: they are neither counted nor shown to it."""


_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PluginFile(Struct, frozen=True):
    """A file of a plug-in: its name below the folder, whether it can be run, and what it holds."""

    name: str
    is_program: bool
    content: bytes


class PluginFolder(Struct, frozen=True, kw_only=True):
    """A plug-in's folder as it was read. `key` is that of consents, `identity` names its own data."""

    path: str
    key: str
    identity: str
    manifest: PluginManifest
    digest: str
    files: tuple[PluginFile, ...]
    is_project: bool = False

    @property
    def name(self) -> str:
        """The name by which people know it."""
        return self.manifest.name


class PluginFolderState(StrEnum):
    """What stands between a plug-in and its running."""

    ENABLED = "enabled"
    OFF = "off"
    CHANGED = "changed"
    """It was enabled with other files."""
    INVALID = "invalid"
    UNTRUSTED = "untrusted"
    """It belongs to a project that the person does not trust; nothing of it was read."""


class PluginFolderRow(Struct, frozen=True, kw_only=True):
    """A line of `hermes plugins list`. `folder` is None where the plug-in was not read, or cannot be used."""

    name: str
    path: str
    state: PluginFolderState
    is_project: bool
    key: str
    """The key of its consent."""
    folder: PluginFolder | None = None
    problem: str = ""
    missed_events: tuple[str, ...] = ()
    """The events at which it was to be asked when it was enabled, and cannot be asked now."""


def read_plugin_folder(path: Path, *, is_project: bool = False) -> PluginFolder:
    """Read a plug-in. Raises ConfigError with what is wrong with it."""
    real = os.path.realpath(path)
    try:
        files = tuple(sorted(read_files(real), key=lambda one: one.name))
    except OSError as error:
        raise ConfigError(
            N_("{path} cannot be read: {reason}.", path=path, reason=error.strerror or error),
            N_("Fix its permissions, or remove it."),
        ) from None
    raw = next((one.content for one in files if one.name == MANIFEST_FILE), None)
    if raw is None:
        raise ConfigError(
            N_("It has no {MANIFEST_FILE}.", MANIFEST_FILE=MANIFEST_FILE), N_("`hermes plugins new NAME` makes one.")
        )
    manifest = parse_manifest(raw)
    if manifest.name != os.path.basename(os.path.abspath(path)):
        raise ConfigError(
            N_(
                "{MANIFEST_FILE} names it {name}, and its folder has another name.",
                MANIFEST_FILE=MANIFEST_FILE,
                name=manifest.name,
            ),
            N_("Give both the same name."),
        )
    suffix = f"@{hashlib.sha256(real.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}" if is_project else ""
    return PluginFolder(
        path=real,
        key=_build_key(real if is_project else manifest.name, is_project=is_project),
        identity=f"{manifest.name}{suffix}",
        manifest=manifest,
        digest=compute_digest(files),
        files=files,
        is_project=is_project,
    )


def compute_digest(files: tuple[PluginFile, ...]) -> str:
    """Return the digest of a plug-in's files: their names, what they hold, and which of them can be run."""
    total = hashlib.sha256()
    for one in files:
        name = one.name.encode("utf-8", "surrogateescape")
        total.update(b"%d:%s:%d:%d:" % (len(name), name, one.is_program, len(one.content)))
        total.update(one.content)
    return total.hexdigest()


def read_files(root: str) -> Iterator[PluginFile]:
    """Yield the files below a folder. Raises OSError, and ConfigError for a link or for too much.

    Each name is opened in the folder that was listed, so that no link that is put there meanwhile leads out of it.
    """
    size = 0
    handle = os.open(root, _FOLDER_FLAGS)
    try:
        for count, (name, file) in enumerate(_walk_files(handle, "", 0)):
            with file:
                if count >= MAX_FILES:
                    raise ConfigError(
                        N_("It has more than {MAX_FILES} files.", MAX_FILES=MAX_FILES), N_("Remove some.")
                    )
                is_program = bool(os.fstat(file.fileno()).st_mode & 0o111)
                content = file.read(MAX_BYTES - size + 1)
            size += len(content)
            if size > MAX_BYTES:
                raise ConfigError(N_("It has more than {size} MB.", size=MAX_BYTES >> 20), N_("Remove some files."))
            yield PluginFile(name, is_program, content)
    finally:
        os.close(handle)


def _walk_files(folder: int, prefix: str, depth: int) -> Iterator[tuple[str, BinaryIO]]:
    """Yield the plain files below an open folder by their names, opened."""
    if depth > _MAX_DEPTH:
        raise ConfigError(N_("Its folders are nested too deeply."), N_("Put its files closer together."))
    for name in sorted(os.listdir(folder)):
        shown = f"{prefix}{name}"
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            if name not in _SKIPPED:
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
                try:
                    yield from _walk_files(inner, f"{shown}/", depth + 1)
                finally:
                    os.close(inner)
            continue
        handle = os.open(name, _FILE_FLAGS, dir_fd=folder) if stat.S_ISREG(mode) else -1
        if handle < 0 or not stat.S_ISREG(os.fstat(handle).st_mode):
            if handle >= 0:
                os.close(handle)
            raise ConfigError(
                N_("{name} is a link or no plain file; a plug-in has plain files only.", name=to_one_line(shown, 80)),
                N_("Put a copy in its place."),
            )
        yield shown, os.fdopen(handle, "rb")


def list_plugin_folders(
    home: Path, workspace: str | None, trust: TrustFile, consents: PluginConsents
) -> tuple[PluginFolderRow, ...]:
    """Return all folder plug-ins of a home, then those of a workspace, each with what stands between it and its
    running.

    Of a project that is not trusted nothing but the names of folders is read. Raises ConfigError for a damaged file of
    consents.
    """
    enabled = consents.list_all()
    rows = [_build_row(one, enabled, is_project=False) for one in _list_folders(home / PLUGINS_FOLDER)]
    rows += _list_gone(home / PLUGINS_FOLDER, rows, enabled, is_project=False)
    if workspace is None:
        return tuple(rows)
    place = Path(os.path.realpath(os.path.join(workspace, PROJECT_FOLDER)))
    if place == Path(os.path.realpath(home / PLUGINS_FOLDER)):
        return tuple(rows)
    for one in _list_folders(place):
        if not trust.is_trusted_folder(os.path.realpath(one)):
            state, key = PluginFolderState.UNTRUSTED, _build_key(str(one), is_project=True)
            problem = N_("You do not trust {folder}: `hermes trust` does, if you know its files.", folder=workspace)
            row = PluginFolderRow(
                name=_show_name(one), path=str(one), state=state, is_project=True, key=key, problem=problem
            )
            rows.append(row)
            continue
        row = _build_row(one, enabled, is_project=True)
        if any(row.name == other.name and not other.is_project for other in rows):
            problem = N_("The home has a plug-in of that name, which is used.")
            row = PluginFolderRow(
                name=row.name,
                path=row.path,
                state=PluginFolderState.INVALID,
                is_project=True,
                key=row.key,
                problem=problem,
            )
        rows.append(row)
    if trust.is_trusted_folder(str(place)):
        rows += _list_gone(place, rows, enabled, is_project=True)
    return tuple(rows)


def _list_gone(
    place: Path, rows: Sequence[PluginFolderRow], enabled: Mapping[str, PluginConsent], *, is_project: bool
) -> list[PluginFolderRow]:
    """Return the plug-ins of a place that were enabled with hooks and are not there any more: what they guarded stays
    refused until the person has disabled them.
    """
    known = {row.key for row in rows}
    gone: list[PluginFolderRow] = []
    for key, consent in enabled.items():
        kind, _, rest = key.partition(":")
        name = rest.rpartition("/")[2]
        path = place / name
        if kind != "folder" or key in known or not consent.hooks or key != _build_key(str(path), is_project=is_project):
            continue
        row = PluginFolderRow(
            name=_show_name(path),
            path=str(path),
            state=PluginFolderState.INVALID,
            is_project=is_project,
            key=key,
            problem=N_("Its folder is gone. `hermes plugins disable {name}` forgets it.", name=_show_name(path)),
            missed_events=consent.hooks,
        )
        gone.append(row)
    return gone


def _build_key(path: str, *, is_project: bool) -> str:
    """Return the key of the consent to a plug-in: for a project's one it is its place, not its name."""
    return f"folder:{os.path.realpath(path)}" if is_project else f"folder:{os.path.basename(path)}"


def _list_folders(place: Path) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            names = sorted(one.name for one in entries if one.is_dir(follow_symlinks=False) and one.name[0] != ".")
    except OSError:
        return []
    return [place / one for one in names[:_MAX_PLUGINS]]


def _build_row(path: Path, enabled: Mapping[str, PluginConsent], *, is_project: bool) -> PluginFolderRow:
    try:
        folder = read_plugin_folder(path, is_project=is_project)
    except ConfigError as error:
        key = _build_key(str(path), is_project=is_project)
        consent = enabled.get(key)
        return PluginFolderRow(
            name=_show_name(path),
            path=str(path),
            state=PluginFolderState.INVALID,
            is_project=is_project,
            key=key,
            problem=error.message,
            missed_events=consent.hooks if consent is not None else (),
        )
    consent = enabled.get(folder.key)
    state = find_state(folder, consent)
    missed = (*consent.hooks, *folder.manifest.hooks) if consent and state is PluginFolderState.CHANGED else ()
    return PluginFolderRow(
        name=folder.name,
        path=folder.path,
        state=state,
        is_project=is_project,
        key=folder.key,
        folder=folder,
        missed_events=tuple(dict.fromkeys(missed)),
    )


def find_state(folder: PluginFolder, consent: PluginConsent | None) -> PluginFolderState:
    """Return what the person's consent says of a plug-in as it is now."""
    if consent is None:
        return PluginFolderState.OFF
    is_same = consent.digest == folder.digest and consent.version == folder.manifest.version
    return PluginFolderState.ENABLED if is_same else PluginFolderState.CHANGED


def _show_name(path: Path) -> str:
    return to_one_line(path.name, 60)
