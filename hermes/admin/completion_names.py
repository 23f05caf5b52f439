"""Names that a shell completes: sessions, models, profiles and the like. Read as fast as can be, and never failing.

What cannot be read is no name; nothing is created, asked of a server, or changed.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from hermes.config.home import locate_home
from hermes.config.profiles import base_folder, profile_names
from hermes.core.errors import HermesError

MOST = 50
_SAFE = re.compile(r"[\w./:@+~-]{1,128}", re.ASCII)
Names = Iterator[tuple[str, str]]


def candidates(environ: Mapping[str, str], kind: str, begun: str) -> list[tuple[str, str]]:
    """Names of a kind that begin with what was typed, each with what there is to say about it; few of them."""
    found: list[tuple[str, str]] = []
    try:
        for name, about in KINDS[kind](environ, begun) if kind in KINDS else ():
            if name.startswith(begun) and (name, about) not in found:
                found.append((name, about))
            if len(found) >= MOST:
                break
    except (HermesError, OSError):
        return []
    return found


def _sessions(environ: Mapping[str, str], begun: str) -> Names:
    """Ids, the one used last first, with their titles; and titles that begin with what was typed."""
    rows = _rows(environ, "SELECT id, title FROM sessions WHERE message_count > 0 ORDER BY updated_at DESC LIMIT 500")
    titles = []
    for session_id, title in rows:
        if _SAFE.fullmatch(session_id):
            yield session_id, title
        if begun and title.isprintable():
            titles.append((title, session_id))
    yield from titles


def _models(environ: Mapping[str, str], begun: str) -> Names:
    """What the settings name, and what sessions were held with."""
    del begun
    from hermes.config.load import load_settings

    try:
        settings = load_settings(locate_home(environ)).settings
        yield settings.model.default, settings.model.provider
        for name in settings.prices:
            yield name, ""
    except HermesError:
        pass  # what is wrong with the settings is no matter of completion
    for name, provider in _rows(environ, "SELECT DISTINCT model, provider FROM sessions WHERE model <> '' LIMIT 200"):
        if _SAFE.fullmatch(name):
            yield name, provider


def _profiles(environ: Mapping[str, str], begun: str) -> Names:
    del begun
    yield from ((name, "") for name in profile_names(base_folder(environ)))


def _providers(environ: Mapping[str, str], begun: str) -> Names:
    del environ, begun
    from hermes.providers.records import provider_names

    yield from ((name, "") for name in provider_names())


def _skills(environ: Mapping[str, str], begun: str) -> Names:
    del begun
    folder = locate_home(environ).skills
    for file in sorted(folder.rglob("SKILL.md")) if folder.is_dir() else ():
        if _SAFE.fullmatch(file.parent.name):
            yield file.parent.name, ""


def _worktrees(environ: Mapping[str, str], begun: str) -> Names:
    del begun
    for file in sorted(base_folder(environ).with_name(".hermes-worktrees").glob("*.json")):
        yield file.stem, ""


def _backups(environ: Mapping[str, str], begun: str) -> Names:
    del begun
    for file in sorted(locate_home(environ).backups.glob("*.zip"), reverse=True):
        if _SAFE.fullmatch(file.name):
            yield file.name, ""


def _rows(environ: Mapping[str, str], query: str) -> list[tuple[str, str]]:
    """Two columns of the database, where there is one."""
    import contextlib

    import apsw

    from hermes.store.sqlite.connection import connect

    file = locate_home(environ).database
    if not file.exists():
        return []
    try:
        with contextlib.closing(connect(file, create=False)) as connection:
            connection.set_busy_timeout(20)
            return [(str(row[0]), str(row[1])) for row in connection.execute(query)]
    except apsw.Error:
        return []


KINDS: dict[str, Callable[[Mapping[str, str], str], Names]] = {
    "session": _sessions,
    "model": _models,
    "profile": _profiles,
    "provider": _providers,
    "skill": _skills,
    "worktree": _worktrees,
    "backup": _backups,
}
"""The kinds of names there are."""
