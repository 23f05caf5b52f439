"""The checks of `hermes doctor`: each with a name, a state, advice, and where it is safe, a repair.

A repair only narrows permissions, rebuilds what can be rebuilt, or deletes what belongs to nothing any
more. No repair touches settings, conversations or memories.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from hermes.admin.backup import find_newest_backup
from hermes.admin.models.refresh import read_model_file
from hermes.config import restore_journal
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import CodeEngine
from hermes.core.errors import HermesError
from hermes.i18n.disk_errors import advise_on_write_error
from hermes.i18n.formats import format_number
from hermes.i18n.messages import N_, tr_plural
from hermes.providers.resolve import resolve_endpoint
from hermes.sessions.model.credentials import list_named_providers, with_stored_providers
from hermes.sessions.model.model_route import choose_model, is_embedded
from hermes.sessions.open_sessions import list_lock_files
from hermes.sessions.options import SessionOptions
from hermes.store.database_copy import check_database, list_session_ids, require_usable_database
from hermes.store.search.index import count_unindexed
from hermes.store.store import Store
from hermes.tools.registry import ToolRegistry, ToolSurroundings
from hermes.tools.toolsets import DEFAULT_TOOLSETS, select_tool_names
from hermes.util.clock import SystemClock
from hermes.util.file_lock import is_lock_held
from hermes.util.localizable import join_localizable

OK, WARNING, PROBLEM = "ok", "warning", "problem"
_LARGE_DATABASE_BYTES = 200_000_000
"""Bytes of a database above which only its structure is checked."""
_SMALL_FILE_BYTES = 65_536
_LOW_SPACE_BYTES = 500_000_000
_LEFTOVER_AGE_SECONDS = 3_600.0
"""Seconds after which an unfinished file belongs to no running process."""
_PROGRAMS = {"git": "git", "rg": "ripgrep"}
_PRIVATE_FILES = (
    *(".env", "auth.json", "oauth.json", "trust.json", "plugins.json", "code.key"),
    *("hermes.db", "search.db", "config.yaml"),
)


class DoctorCheck(Struct, frozen=True, kw_only=True):
    """The result of one check: its state, advice, and what a repair did."""

    name: str
    state: str
    said: str
    advice: str = ""
    fixed: str = ""


async def check_home(environ: Mapping[str, str], *, fix: bool = False) -> list[DoctorCheck]:
    """Run all checks on the home; with `fix` repair what is safe to repair. Without it nothing changes."""
    try:
        home = locate_home(environ)
        home.check_usable(writes=False)
    except HermesError as error:
        return [DoctorCheck(name="home", state=PROBLEM, said=error.message, advice=error.hint)]
    about = [*_check_model(environ, home), _check_programs(environ), await _check_code_engine(environ, home)]
    about += [*_check_speech(environ, home), *await _check_browser(environ, home), *await _check_readers()]
    if not home.root.is_dir():
        return [_check_missing_home(home, fix=fix), *about, *_check_tools(environ, home)]
    can_fix = fix and home.is_writable
    checks = [await check(home, can_fix) for check in _CHECKS]
    return [
        *_check_writable(home),
        *about,
        *checks,
        *_check_tools(environ, home),
        *_check_tokens(home),
        *await _check_webhooks(home, environ),
    ]


def _check_model(environ: Mapping[str, str], home: HermesHome) -> list[DoctorCheck]:
    """Check that a model is set up, and has its key; no server is asked. What is wrong with the settings themselves is
    told by their own check.
    """
    try:
        settings, whole = load_settings(home).settings, merge_dotenv(environ, home.env_file)
        choice = with_stored_providers(choose_model(settings.model, SessionOptions()), home, settings)
    except (HermesError, OSError):
        return []
    if is_embedded(choice, whole):
        if choice.provider:
            return [DoctorCheck(name="model", state=OK, said=N_("The small model that comes along answers."))]
        advice = N_("`hermes setup` sets one up, or takes over what another agent has.")
        return [DoctorCheck(name="model", state=WARNING, said=N_("No model is set up yet."), advice=advice)]
    try:
        endpoint = resolve_endpoint(choice, whole)
    except HermesError as error:
        return [DoctorCheck(name="model", state=PROBLEM, said=error.message, advice=error.hint)]
    said = N_(
        "{model} from {provider} is set up; `hermes model test` tries it.",
        model=endpoint.model,
        provider=endpoint.record.title,
    )
    return [DoctorCheck(name="model", state=OK, said=said)]


def _check_tools(environ: Mapping[str, str], home: HermesHome) -> list[DoctorCheck]:
    """Tell which tools are hidden from the model, and why: a warning where a setting has chosen what cannot work."""
    try:
        around = ToolSurroundings(merge_dotenv(environ, home.env_file), load_settings(home).settings)
    except (HermesError, OSError):
        return []
    hidden: dict[tuple[str, str], list[str]] = {}
    registry = ToolRegistry()
    for name in select_tool_names(DEFAULT_TOOLSETS):
        tool = registry.find_known(name)
        if tool is not None and (why := around.explain_missing(tool)):
            state = OK if tool.requirements.explain_missing(around.environ) else WARNING
            hidden.setdefault((state, why), []).append(name)
    return [
        DoctorCheck(
            name="tools",
            state=state,
            said=N_("Hidden from the model: {names}; {why_said}.", names=", ".join(names), why_said=why),
        )
        for (state, why), names in hidden.items()
    ]


def _check_tokens(home: HermesHome) -> list[DoctorCheck]:
    """Check that the tokens of sign-ins are where the person wants them. The keyring itself is not opened."""
    if not os.path.lexists(home.oauth_file):
        return []
    from hermes.oauth.token_store import TokenStore

    try:
        found = TokenStore(home.oauth_file, home.locks).list_fallbacks()
    except HermesError as error:
        return [DoctorCheck(name="tokens", state=PROBLEM, said=error.message, advice=error.hint)]
    if not found:
        return []
    said = N_(
        "Tokens are in a private file, and not in the keyring: {names} ({why})",
        names=", ".join(found),
        why=next(iter(found.values())).rstrip("."),
    )
    return [DoctorCheck(name="tokens", state=WARNING, said=said, advice=N_("Sign in again once the keyring works."))]


def _check_programs(environ: Mapping[str, str]) -> DoctorCheck:
    """Check for the programs that Hermes uses where they are."""
    missing = [name for program, name in _PROGRAMS.items() if not shutil.which(program, path=environ.get("PATH"))]
    if not missing:
        return DoctorCheck(name="programs", state=OK, said=N_("git and ripgrep are there."))
    return DoctorCheck(
        name="programs",
        state=WARNING if _PROGRAMS["git"] in missing else OK,
        said=N_("Not installed: {names}.", names=", ".join(missing)),
        advice=N_("Hermes works without: ripgrep makes searches faster, git shows changes and makes worktrees."),
    )


async def _check_code_engine(environ: Mapping[str, str], home: HermesHome) -> DoctorCheck:
    """Check in what code runs that calls tools, and what stands around it."""
    from hermes.admin.update import describe_extra_command
    from hermes.execution.code import monty_engine
    from hermes.execution.code.worker_wall import WorkerWall, choose_wall, find_worker_program

    if _is_python_chosen(home):
        said = N_("Code that calls tools runs in Python, as code_execution.engine says: it does not survive a restart.")
        return DoctorCheck(name="code", state=OK, said=said)
    version, program = monty_engine.find_version(), find_worker_program()
    if not version or program is None:
        said = N_("Code that calls tools runs in Python, where commands run: it does not survive a restart.")
        advice = N_("An interpreter that survives one: {command}", command=describe_extra_command(monty_engine.EXTRA))
        return DoctorCheck(name="code", state=OK, said=said, advice=advice)
    wall = await asyncio.to_thread(choose_wall, program, environ.get("PATH", os.defpath))
    if wall is WorkerWall.NONE:
        said = N_("Code that calls tools runs in pydantic-monty {version}, without a second wall.", version=version)
        return DoctorCheck(name="code", state=OK, said=said)
    said = N_("Code that calls tools runs in pydantic-monty {version}, behind {wall}.", version=version, wall=wall)
    return DoctorCheck(name="code", state=OK, said=said)


def _check_speech(environ: Mapping[str, str], home: HermesHome) -> list[DoctorCheck]:
    """Check who hears voice messages and who speaks; no server is asked."""
    from hermes.sessions.features.speech import describe_speech
    from hermes.speech.sound_formats import ADVICE

    try:
        settings, whole = load_settings(home).settings, merge_dotenv(environ, home.env_file)
        hears, speaks, has_ffmpeg = describe_speech(settings, whole, home)
    except (HermesError, OSError):
        return []  # told by the check of the settings
    said = [one for report in (hears, speaks) for one in (report.said, report.hint) if one]
    if not has_ffmpeg and not (hears.hint and speaks.hint):
        said += [
            N_("There is no ffmpeg: some recordings cannot be read, and speech may go out as a plain file."),
            ADVICE,
        ]
    # Whoever has named an engine wants it; without one nothing is wrong.
    named = ((settings.stt, hears), (settings.tts, speaks))
    is_wanted = any(report.hint and (chosen.provider or chosen.command) for chosen, report in named)
    return [DoctorCheck(name="voice", state=WARNING if is_wanted else OK, said=join_localizable(" ", said))]


async def _check_browser(environ: Mapping[str, str], home: HermesHome) -> list[DoctorCheck]:
    """Check that there is a browser which can be confined; it is not started."""
    from hermes.browser.process.browser_state import read_browser_state

    try:
        state = await read_browser_state(environ, home)
    except (HermesError, OSError):
        return []  # told by the check of the settings
    if state.remote:
        said = N_(
            "The agent uses the browser at {address}, outside of the sandbox and the proxy.", address=state.remote
        )
        return [DoctorCheck(name="browser", state=OK, said=said)]
    if not state.problem:
        return [DoctorCheck(name="browser", state=OK, said=N_("The agent can use {path}.", path=state.program))]
    return [DoctorCheck(name="browser", state=WARNING, said=state.problem, advice=state.advice)]


async def _check_readers() -> list[DoctorCheck]:
    """Check whether documents and pictures can be read: in a sandbox only, and with the extras that bring libraries."""
    from hermes.admin.update import describe_extra_command
    from hermes.execution.sandbox.program_box import explain_missing_box
    from hermes.media.extras import EXTRAS, list_unread_kinds
    from hermes.media.worker_process import find_support

    if why := explain_missing_box(await asyncio.to_thread(find_support)):
        said = N_("Documents are not read, and pictures are not made smaller: {why}.", why=why)
        advice = N_("Install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`).")
        return [DoctorCheck(name="documents", state=WARNING, said=said, advice=advice)]
    checks: list[DoctorCheck] = []
    for extra in EXTRAS:
        missing = list_unread_kinds(extra)
        if missing:
            said = N_("Files of these kinds are not read: {kinds}.", kinds=", ".join(missing))
            advice = N_("What reads them: {command}", command=describe_extra_command(extra))
            checks.append(DoctorCheck(name=extra, state=OK, said=said, advice=advice))
    if not checks:
        said = N_("Documents and pictures of every kind are read.")
        checks.append(DoctorCheck(name="documents", state=OK, said=said))
    return checks


def _is_python_chosen(home: HermesHome) -> bool:
    """Return whether the settings name Python; those that cannot be read are told by their own check."""
    try:
        return load_settings(home).settings.code_execution.engine is CodeEngine.PYTHON
    except (HermesError, OSError):
        return False


def _check_writable(home: HermesHome) -> list[DoctorCheck]:
    """Check that something can be written; a home that cannot is looked through all the same, and not repaired."""
    try:
        home.check_usable()
        with tempfile.TemporaryFile(dir=home.root) as file:
            file.write(b"0" * _SMALL_FILE_BYTES)
            file.flush()
    except HermesError as error:
        return [DoctorCheck(name="home", state=PROBLEM, said=error.message, advice=error.hint)]
    except OSError as error:
        said = N_("Nothing can be written in {home}: {why}.", home=home.root, why=error.strerror or str(error))
        return [DoctorCheck(name="home", state=PROBLEM, said=said, advice=advise_on_write_error(error))]
    return []


def _check_missing_home(home: HermesHome, *, fix: bool) -> DoctorCheck:
    if fix:
        home.ensure_exists()
    fixed = N_("The folder was made.") if fix else ""
    said = N_("{home} is not there yet; the first start makes it.", home=home.root)
    return DoctorCheck(name="home", state=OK, said=said, fixed=fixed)


async def _check_permissions(home: HermesHome, fix: bool) -> DoctorCheck:
    """Check that nobody else can read the home or the files with keys and conversations."""
    open_ones = [path for path in _list_private_paths(home) if _is_open_to_others(path)]
    if not open_ones:
        return DoctorCheck(name="permissions", state=OK, said=N_("Only you can read the home."))
    shown = ", ".join(one.name or str(one) for one in open_ones[:5])
    exposed = home.root in open_ones and any(one.is_file() for one in open_ones)
    said = N_("Others on this machine can read: {names}.", names=shown)
    if not fix:
        state = PROBLEM if exposed else WARNING
        return DoctorCheck(name="permissions", state=state, said=said, advice=N_("`hermes doctor --fix` closes them."))
    for one in open_ones:
        one.chmod(stat.S_IMODE(one.stat().st_mode) & 0o700)
    return DoctorCheck(name="permissions", state=OK, said=said, fixed=N_("They can be read by you only now."))


def _path_exists(path: Path) -> bool:
    return os.path.lexists(path)


def _list_private_paths(home: HermesHome) -> Iterator[Path]:
    yield home.root
    for name in (*_PRIVATE_FILES, "backups", "spill", "memories"):
        if (home.root / name).exists() and not (home.root / name).is_symlink():
            yield home.root / name
    if home.backups.is_dir():
        yield from (one for one in home.backups.iterdir() if one.is_file() and not one.is_symlink())


def _is_open_to_others(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.getuid() and bool(status.st_mode & 0o077)


async def _check_folders(home: HermesHome, fix: bool) -> DoctorCheck:
    """Check that nothing else stands where the home has its folders."""
    del fix
    names = ("memories", "skills", "cache", "logs", "run", "spill", "trajectories", "backups")
    wrong = [name for name in names if _path_exists(home.root / name) and not (home.root / name).is_dir()]
    if not wrong:
        return DoctorCheck(name="folders", state=OK, said=N_("Every folder of the home can be used."))
    return DoctorCheck(
        name="folders",
        state=PROBLEM,
        said=N_("These should be folders and are not: {names}.", names=", ".join(wrong)),
        advice=N_("Move them away."),
    )


async def _check_settings(home: HermesHome, fix: bool) -> DoctorCheck:
    """Check the settings; errors are reported and never repaired."""
    del fix
    try:
        loaded = load_settings(home)
        named = list_named_providers(home, loaded.settings)
        read_model_file(home)
    except HermesError as error:
        return DoctorCheck(name="settings", state=PROBLEM, said=error.message, advice=error.hint)
    if loaded.warnings:
        return DoctorCheck(
            name="settings",
            state=WARNING,
            said=" ".join(loaded.warnings[:5]),
            advice=N_("Fix it in {file}.", file=home.config_file),
        )
    said = (
        N_("config.yaml is understood.") if home.config_file.exists() else N_("There is no config.yaml; defaults hold.")
    )
    if named:
        names = ", ".join(one.record.name for one in named)
        said = join_localizable(" ", (said, N_("Providers in it: {names}.", names=names)))
    return DoctorCheck(name="settings", state=OK, said=said)


async def _check_webhooks(home: HermesHome, environ: Mapping[str, str]) -> list[DoctorCheck]:
    """Check where the webhooks of the settings deliver to; nothing is said where there are none."""
    from hermes.admin.home_services import open_existing_store
    from hermes.admin.webhooks import WebhookAdmin
    from hermes.sessions.target_book import load_target_book

    with contextlib.suppress(HermesError):  # settings and a database that cannot be read have a check of their own
        admin = WebhookAdmin(home)
        routes, wrong = admin.list_configured_routes(environ)
        async with open_existing_store(home) as store:
            if store is not None:
                book = await load_target_book(store, load_settings(home).settings.platforms)
                wrong += admin.find_wrong_targets(environ, book)
        if wrong:
            return [DoctorCheck(name="webhooks", state=WARNING, said=join_localizable(" ", wrong[:5]))]
        if routes:
            count = len(routes)
            said = tr_plural("{n} webhook is set up.", "{n} webhooks are set up.", count)
            return [DoctorCheck(name="webhooks", state=OK, said=said)]
    return []


async def _check_database(home: HermesHome, fix: bool) -> DoctorCheck:
    """Check the database of conversations. It is never repaired here: the person may restore a backup."""
    del fix
    if not home.database.exists():
        return DoctorCheck(name="database", state=OK, said=N_("There is no database yet."))
    try:
        require_usable_database(home.database)
        wrong = await asyncio.to_thread(
            check_database, home.database, thorough=_file_size(home.database) < _LARGE_DATABASE_BYTES
        )
    except HermesError as error:
        wrong = [error.message]
    if not wrong:
        return DoctorCheck(name="database", state=OK, said=N_("hermes.db is sound."))
    newest = find_newest_backup(home)
    advice = N_("No backup is in the home; keep the file as it is, and copy it before anything else.")
    if newest is not None:
        advice = N_("`hermes restore {name}` restores the newest backup.", name=newest.name)
    return DoctorCheck(
        name="database", state=PROBLEM, said=N_("hermes.db: {what}.", what=wrong[0].rstrip(".")), advice=advice
    )


async def _check_search_index(home: HermesHome, fix: bool) -> DoctorCheck:
    """Check the search index, which can always be rebuilt."""
    file = home.root / "search.db"
    if not file.exists() or not home.database.exists():
        return DoctorCheck(name="search", state=OK, said=N_("The search index is made when it is wanted."))
    missing = await asyncio.to_thread(count_unindexed, file, home.database)
    wrong = await asyncio.to_thread(check_database, file, thorough=False) if missing is not None else ["?"]
    if not missing and not wrong:
        return DoctorCheck(name="search", state=OK, said=N_("The search index is sound and knows every message."))
    said = N_("The search index is damaged.")
    state = WARNING
    if not wrong:
        state, said = (
            OK,
            tr_plural(
                "The search index lacks {n} message; the next search takes it in.",
                "The search index lacks {n} messages; the next search takes them in.",
                missing or 0,
            ),
        )
    if not fix:
        return DoctorCheck(name="search", state=state, said=said, advice=N_("`hermes doctor --fix` rebuilds it."))
    try:
        store = await Store.open(home.root, SystemClock())
        try:
            report = await store.search.update_index()
        finally:
            await store.close()
    except HermesError as error:
        return DoctorCheck(name="search", state=PROBLEM, said=said, advice=error.message)
    fixed = N_("It was brought up to date: {n} messages taken in.", n=format_number(report.messages))
    return DoctorCheck(name="search", state=OK, said=said, fixed=fixed)


async def _check_locks(home: HermesHome, fix: bool) -> DoctorCheck:
    """Check for locks of deleted sessions. A lock that is held is never touched."""
    known = await _load_session_ids(home)
    stale = [
        file
        for file in list_lock_files(home)
        if known is not None and file.stem not in known and not is_lock_held(file)
    ]
    return _check_orphans(
        "locks",
        stale,
        fix,
        N_("No lock is left over."),
        _remove_lock,
        (
            "{n} lock is left of a session that is gone.",
            "{n} locks are left of sessions that are gone.",
        ),
    )


async def _check_spill(home: HermesHome, fix: bool) -> DoctorCheck:
    """Check for large results of deleted sessions."""
    known = await _load_session_ids(home)
    held = {file.stem for file in list_lock_files(home) if is_lock_held(file)}
    folders = sorted(home.spill.iterdir()) if home.spill.is_dir() else []
    lost = [one for one in folders if known is not None and one.name not in known and one.name not in held]
    return _check_orphans(
        "results",
        lost,
        fix,
        N_("Every large result belongs to a session."),
        _remove_path,
        (
            "{n} folder of results is of a session that is gone.",
            "{n} folders of results are of sessions that are gone.",
        ),
    )


async def _check_leftovers(home: HermesHome, fix: bool) -> DoctorCheck:
    """Check for files that backups and restores left when they crashed."""
    found = restore_journal.list_leftover_stages(home.root)
    for folder in (home.root, home.backups):
        if folder.is_dir():
            found += [one for one in folder.iterdir() if one.name.startswith(".hermes.db.") or one.suffix == ".partial"]
    old = [one for one in found if time.time() - one.lstat().st_mtime > _LEFTOVER_AGE_SECONDS]
    return _check_orphans(
        "leftovers",
        old,
        fix,
        N_("No leftover temporary files."),
        _remove_path,
        (
            "{n} leftover temporary file or folder.",
            "{n} leftover temporary files or folders.",
        ),
    )


async def _check_temporary_folders(home: HermesHome, fix: bool) -> DoctorCheck:
    """Check for temporary folders of sessions whose process was killed. One whose process lives is never touched."""
    del home
    from hermes.execution.sandbox.tmpdir import find_abandoned, remove_folders

    found = await asyncio.to_thread(find_abandoned)
    if found and fix:
        await remove_folders(found)
    return _check_orphans(
        "temporary",
        [Path(one) for one in found],
        fix,
        N_("No temporary folder of a killed session is left."),
        lambda path: not path.exists(),
        (
            "{n} temporary folder is left of a session that was killed.",
            "{n} temporary folders are left of sessions that were killed.",
        ),
    )


async def _check_space(home: HermesHome, fix: bool) -> DoctorCheck:
    """Check the free space on the disk."""
    del fix
    free = shutil.disk_usage(home.root).free
    shown = N_("{free} MB are free where the home is.", free=format_number(free // 1_000_000))
    if free >= _LOW_SPACE_BYTES:
        return DoctorCheck(name="space", state=OK, said=shown)
    return DoctorCheck(
        name="space", state=WARNING, said=shown, advice=N_("Make room: without it nothing can be stored.")
    )


def _check_orphans(
    name: str,
    found: list[Path],
    fix: bool,
    clean_message: str,
    remove: Callable[[Path], bool],
    found_messages: tuple[str, str],
) -> DoctorCheck:
    """Check for what belongs to nothing any more; with `fix` it is deleted."""
    if not found:
        return DoctorCheck(name=name, state=OK, said=clean_message)
    said = tr_plural(*found_messages, len(found))
    if not fix:
        return DoctorCheck(name=name, state=WARNING, said=said, advice=N_("`hermes doctor --fix` takes that away."))
    gone = sum(remove(one) for one in found)
    left = len(found) - gone
    fixed = N_("Taken away: {n}.", n=format_number(gone))
    return DoctorCheck(name=name, state=WARNING if left else OK, said=said, fixed=fixed)


def _remove_lock(file: Path) -> bool:
    """Remove a lock file, unless somebody takes it at this moment."""
    with contextlib.suppress(OSError):
        handle = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()
        finally:
            os.close(handle)
        return True
    return False


def _remove_path(path: Path) -> bool:
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        return True
    return False


async def _load_session_ids(home: HermesHome) -> set[str] | None:
    """Return the ids of all sessions, or None when they cannot be read and nothing may count as orphaned."""
    if not home.database.exists():
        return set()
    try:
        return await asyncio.to_thread(list_session_ids, home.database)
    except HermesError:
        return None


def _file_size(file: Path) -> int:
    with contextlib.suppress(OSError):
        return file.stat().st_size
    return 0


_CHECKS: tuple[Callable[[HermesHome, bool], Awaitable[DoctorCheck]], ...] = (
    _check_permissions,
    _check_folders,
    _check_settings,
    _check_database,
    _check_search_index,
    _check_locks,
    _check_spill,
    _check_leftovers,
    _check_temporary_folders,
    _check_space,
)
"""All checks, in the order in which they are shown."""
