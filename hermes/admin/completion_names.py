"""The names that a shell completes: sessions, models, profiles and the like. Fast, and never failing.

What cannot be read yields no name; nothing is created, asked of a server, or changed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hermes.config.home import list_profiles, locate_base_folder, locate_home
from hermes.core.errors import HermesError

if TYPE_CHECKING:
    from hermes.providers.named import NamedProvider

MAX_CANDIDATES = 50
_SAFE = re.compile(r"[\w./:@+~-]{1,128}", re.ASCII)
Names = Iterator[tuple[str, str]]


def list_candidates(environ: Mapping[str, str], kind: str, prefix: str) -> list[tuple[str, str]]:
    """List a few names of a kind that begin with `prefix`, each with a description."""
    found: list[tuple[str, str]] = []
    try:
        for name, about in NAME_SOURCES[kind](environ, prefix) if kind in NAME_SOURCES else ():
            if name.startswith(prefix) and (name, about) not in found:
                found.append((name, about))
            if len(found) >= MAX_CANDIDATES:
                break
    except (HermesError, OSError):
        return []
    return found


def _session_names(environ: Mapping[str, str], prefix: str) -> Names:
    """Yield ids with their titles, the one used last first; then titles that begin with the prefix."""
    rows = _query_rows(
        environ, "SELECT id, title FROM sessions WHERE message_count > 0 ORDER BY updated_at DESC LIMIT 500"
    )
    titles = []
    for session_id, title in rows:
        if _SAFE.fullmatch(session_id):
            yield session_id, title
        if prefix and title.isprintable():
            titles.append((title, session_id))
    yield from titles


def _model_names(environ: Mapping[str, str], prefix: str) -> Names:
    """Yield the models that the settings name and those that sessions used."""
    del prefix
    from hermes.config.load import load_settings

    try:
        settings = load_settings(locate_home(environ)).settings
        yield settings.model.default, settings.model.provider
        for name in settings.prices:
            yield name, ""
    except HermesError:
        pass  # what is wrong with the settings is no matter of completion
    for one in _list_named(environ):
        yield from ((f"{one.record.name}/{model}", one.record.title) for model in one.models)
    for name, provider in _query_rows(
        environ, "SELECT DISTINCT model, provider FROM sessions WHERE model <> '' LIMIT 200"
    ):
        if _SAFE.fullmatch(name):
            yield name, provider


def _profile_names(environ: Mapping[str, str], prefix: str) -> Names:
    del prefix
    yield from ((name, "") for name in list_profiles(locate_base_folder(environ)))


def _provider_names(environ: Mapping[str, str], prefix: str) -> Names:
    del prefix
    from hermes.providers.records import list_provider_names

    yield from ((name, "") for name in list_provider_names())
    yield from ((one.record.name, one.record.title) for one in _list_named(environ) if one.is_new)


def _list_named(environ: Mapping[str, str]) -> "Sequence[NamedProvider]":
    """Return the providers that the settings name; none when they are not right."""
    from hermes.config.load import load_settings
    from hermes.sessions.model.credentials import list_named_providers

    home = locate_home(environ)
    try:
        return list_named_providers(home, load_settings(home).settings)
    except HermesError:
        return ()


def _skill_names(environ: Mapping[str, str], prefix: str) -> Names:
    del prefix
    folder = locate_home(environ).skills
    for file in sorted(folder.rglob("SKILL.md")) if folder.is_dir() else ():
        if _SAFE.fullmatch(file.parent.name):
            yield file.parent.name, ""


def _worktree_names(environ: Mapping[str, str], prefix: str) -> Names:
    del prefix
    for file in sorted(locate_base_folder(environ).with_name(".hermes-worktrees").glob("*.json")):
        yield file.stem, ""


def _backup_names(environ: Mapping[str, str], prefix: str) -> Names:
    del prefix
    for file in sorted(locate_home(environ).backups.glob("*.zip"), reverse=True):
        if _SAFE.fullmatch(file.name):
            yield file.name, ""


def _query_rows(environ: Mapping[str, str], query: str) -> list[tuple[str, str]]:
    """Query two columns of the database; empty where there is none."""
    import contextlib

    import apsw

    from hermes.store.connection import open_connection

    file = locate_home(environ).database
    if not file.exists():
        return []
    try:
        with contextlib.closing(open_connection(file, create=False)) as connection:
            connection.set_busy_timeout(20)
            return [(str(row[0]), str(row[1])) for row in connection.execute(query)]
    except apsw.Error:
        return []


NAME_SOURCES: dict[str, Callable[[Mapping[str, str], str], Names]] = {
    "session": _session_names,
    "model": _model_names,
    "profile": _profile_names,
    "provider": _provider_names,
    "skill": _skill_names,
    "worktree": _worktree_names,
    "backup": _backup_names,
}
"""The name sources by kind."""
