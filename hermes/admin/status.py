"""Collect the state of Hermes for `hermes status` and `/status`.

The summary of this machine at the top of `hermes doctor`: home, terminal backend, approvals, trust.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path

import hermes
from hermes.admin.auth import open_key_admin
from hermes.admin.home_services import open_existing_store
from hermes.admin.usage import CacheSavings, cap_row, total_row
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome, find_current_profile, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.config.trusted_folders import is_trusted, read_trusted_folders
from hermes.core.encoding import Plain
from hermes.core.errors import ConfigError, HermesError, TransportError
from hermes.core.protocols import HttpTimeouts
from hermes.execution.layout import PathAccess
from hermes.execution.supervisor import Supervisors
from hermes.i18n.messages import N_, get_language
from hermes.providers.http import create_http_transport
from hermes.providers.resolve import resolve_endpoint
from hermes.providers.wire import build_url
from hermes.safety.paths import Places, is_or_below
from hermes.sessions.backend_factory import BackendFactory, resolve_places
from hermes.sessions.model.credentials import with_stored_providers
from hermes.sessions.model.model_route import choose_model, is_embedded
from hermes.sessions.model.spending import configured_caps, period_starts
from hermes.sessions.open_sessions import list_open_sessions
from hermes.sessions.options import SessionOptions
from hermes.sessions.session_lookup import row_to_dict
from hermes.sessions.session_tools import approval_mode, build_policy
from hermes.store.records import SpendTotal
from hermes.store.revisions import RevisionState
from hermes.store.store import Store
from hermes.util.clock import SystemClock
from hermes.util.text import redact_url

PROBLEM_PREFIX = "Problem:"


def describe_problem(error: Exception) -> str:
    """Return the line about what stops Hermes; it begins with `PROBLEM_PREFIX` in English."""
    return N_("Problem: {error}", error=str(error))


async def summarize_health(environ: Mapping[str, str], folder: str) -> list[str]:
    """Return lines about the home, the terminal backend, approvals and the folder. Creates nothing.

    A setting that stops Hermes is a line that begins with `Problem:`. Raises ConfigError for a damaged file.
    """
    home = locate_home(environ)
    loaded = load_settings(home)
    settings = loaded.settings
    places = resolve_places(environ, home, folder)
    trusted = is_trusted(places.workspace, read_trusted_folders(home.trust_file))
    commands, contained = await describe_backend(environ, settings, places)
    return [
        *loaded.warnings,
        N_("Home: {root}", root=home.root),
        *commands,
        _describe_approvals(settings, contained),
        _describe_trust(places.workspace, trusted=trusted),
    ]


async def describe_backend(
    environ: Mapping[str, str], settings: Settings, places: Places, *, whole: bool = True
) -> tuple[list[str], str]:
    """Return lines about the terminal backend, and its name if it confines commands; `whole`: with lesser gaps."""
    supervisors = Supervisors(environ)
    try:
        handle, remark = BackendFactory(environ, settings, lambda: supervisors).create_backend(places, -1)
        backend = handle.get()
        try:
            held = await backend.describe(detailed=whole)
        finally:
            await backend.close()
    except ConfigError as error:
        return [describe_problem(error)], ""
    finally:
        await supervisors.close()
    return [
        N_("Commands: {held}", held=held),
        *([remark] if remark else []),
    ], backend.name if backend.contained else ""


async def can_commands_read(environ: Mapping[str, str], path: Path) -> bool:
    """Return whether commands of a session in this folder, the home, a trusted folder, or one of the gateway's could
    read a new file.

    The sandbox's own layout says so; where there is none, they can read everything but the home's folder of backups.
    The file exists, empty, while it is asked, since a layout is made of what exists. Raises OSError where it cannot be
    made.
    """
    supervisors = Supervisors(environ)
    try:
        return await asyncio.to_thread(_is_shown_to_commands, environ, path, supervisors)
    finally:
        await supervisors.close()


def _is_shown_to_commands(environ: Mapping[str, str], path: Path, supervisors: Supervisors) -> bool:
    home = locate_home(environ)
    settings = load_settings(home).settings
    real = os.path.join(os.path.realpath(path.parent), path.name)
    if os.path.dirname(real) == os.path.join(os.path.realpath(home.root), home.backups.name):
        return False
    if is_or_below(real, os.path.realpath(home.people)):
        return True
    served = settings.gateway.cwd or str(home.root / "workspace")
    folders = (os.getcwd(), os.path.expanduser("~"), served, *read_trusted_folders(home.trust_file))
    path.touch(mode=0o600, exist_ok=False)
    try:
        for folder in filter(None, dict.fromkeys(folders)):
            places = resolve_places(environ, home, os.path.expanduser(folder))
            backend = BackendFactory(environ, settings, lambda: supervisors).create_backend(places, -1)[0].get()
            layout = backend.current_layout()
            if layout is None or layout.access_of(real) in (PathAccess.READ, PathAccess.WRITE):
                return True
    finally:
        path.unlink(missing_ok=True)
    return False


def _describe_approvals(settings: Settings, contained: str) -> str:
    try:
        mode, policy = approval_mode(settings), build_policy(settings, SessionOptions())
    except ConfigError as error:
        return describe_problem(error)
    if mode == "off":
        counts = policy.off_in == contained
        none = N_("off in {place} (only places outside and hosts are asked about there)", place=policy.off_in)
        some = N_("off in {place} (commands run elsewhere, so questions are asked)", place=policy.off_in)
        mode = none if counts else some
    return N_(
        "Questions: mode {mode}, {allowed} allowed patterns, {rules} rules of your own; no answer within {seconds:g} s "
        "is a no.",
        mode=mode,
        allowed=len(policy.allow),
        rules=len(policy.rules),
        seconds=settings.approvals.timeout,
    )


def _describe_trust(folder: str, *, trusted: bool) -> str:
    if trusted:
        return N_("Folder: {folder} is trusted.", folder=folder)
    return N_(
        "Folder: {folder} is not trusted: its files are untrusted content (`hermes trust` changes it).",
        folder=folder,
    )


REACH_SECONDS = 2.0
"""The time limit for asking the model's server."""
_MAX_COUNTED_FILES = 50_000
_EMPTY_TOTALS: Plain = {"sessions": 0, "open": 0, "last_session": None, "today": None, "month": None, "caps": []}


async def collect_status(environ: Mapping[str, str], folder: str, *, offline: bool = False) -> Plain:
    """Collect version, home, model, keys by name, sandbox, sessions, money, pending changes and disk use.

    Nothing is created. `offline` asks no server. Raises ConfigError for settings that cannot be used.
    """
    home = locate_home(environ)
    home.check_usable()
    settings = load_settings(home).settings
    places = resolve_places(environ, home, folder)
    model, held, keys = await asyncio.gather(
        _model_status(environ, home, settings, offline=offline),
        describe_backend(environ, settings, places, whole=False),
        _key_states(environ),
    )
    return {
        "version": hermes.__version__,
        "home": str(home.root),
        "profile": find_current_profile(environ),
        "language": get_language(),
        "folder": places.workspace,
        "trusted": is_trusted(places.workspace, read_trusted_folders(home.trust_file)),
        "model": model,
        "keys": keys,
        "commands": held[0],
        "disk": await asyncio.to_thread(_disk_usage, home),
        **await _database_status(home, settings),
    }


async def _model_status(environ: Mapping[str, str], home: HermesHome, settings: Settings, *, offline: bool) -> Plain:
    """Describe the model that would answer, and whether its server does; `reached` is None where it was not asked."""
    whole = merge_dotenv(environ, home.env_file)
    row: Plain = {"model": "", "provider": "", "base_url": "", "reached": None, "seconds": None, "wrong": ""}
    try:
        choice = with_stored_providers(choose_model(settings.model, SessionOptions()), home, settings)
        if is_embedded(choice, whole):
            return row | {"model": "smollm2-135m-instruct", "provider": "local", "reached": True}
        endpoint = resolve_endpoint(choice, whole)
    except HermesError as error:
        return row | {"wrong": str(error)}
    row |= {"model": endpoint.model, "provider": endpoint.record.name, "base_url": redact_url(endpoint.base_url)}
    return row if offline else row | await _probe_server(whole, endpoint.base_url, settings.model.ca_bundle)


async def _probe_server(environ: Mapping[str, str], base_url: str, ca_file: str) -> Plain:
    """Test whether a server answers at all, even if it refuses a request without a key."""
    began = time.monotonic()
    timeouts = HttpTimeouts(connect=REACH_SECONDS, read=REACH_SECONDS)
    try:
        transport = create_http_transport(environ, ca_file=ca_file)
        try:
            url = build_url(base_url, "/models")
            async with (
                asyncio.timeout(REACH_SECONDS),
                transport.open("GET", url, headers={}, body=b"", timeouts=timeouts) as stream,
            ):
                answered = stream.status
        finally:
            await transport.close()
    except TimeoutError:
        return {"reached": False, "wrong": N_("no answer within {seconds:g} s", seconds=REACH_SECONDS)}
    except (TransportError, HermesError) as error:
        return {"reached": False, "wrong": str(error)}
    return {"reached": True, "seconds": round(time.monotonic() - began, 3), "status": answered}


async def _key_states(environ: Mapping[str, str]) -> list[Plain]:
    """List the keys by name and state, without any part of their values."""
    try:
        async with open_key_admin(environ) as auth:
            rows = await auth.list_keys()
    except HermesError as error:
        return [{"provider": "", "label": "", "state": str(error)}]
    return [{"provider": row["provider"], "label": row["label"], "state": row["state"]} for row in rows]


async def _database_status(home: HermesHome, settings: Settings) -> Plain:
    """Summarize the database; of a home without one, return zeros."""
    async with open_existing_store(home) as store:
        if store is None:
            return {**_EMPTY_TOTALS, "pending": {"approvals": 0, "memory": 0, "skills": 0}}
        await store.spending.settle_lost()
        now = SystemClock().now()
        last = await store.sessions.get_latest()
        caps = [cap for cap in configured_caps(settings, now) if cap.name in ("day", "month")]
        day, month = period_starts(now)
        savings = CacheSavings(settings)
        return {
            "sessions": (await store.spending.get_session_total(0)).sessions,
            "open": len(list_open_sessions(home)),
            "last_session": None if last is None else _session_summary(row_to_dict(last)),
            "today": await _spend_since(store, savings, day),
            "month": await _spend_since(store, savings, month),
            "caps": [cap_row(one) for one in await store.spending.list_cap_usage(caps)],
            "pending": {
                "approvals": len(await store.approvals.list_pending()),
                "memory": len(await store.revisions.list_newest("memory", states=(RevisionState.PENDING,))),
                "skills": len(await store.revisions.list_newest("skill", states=(RevisionState.PENDING,))),
            },
        }


def _session_summary(row: Plain) -> Plain:
    return {name: row[name] for name in ("id", "title", "updated_at", "message_count", "model")}


async def _spend_since(store: Store, savings: CacheSavings, since: float) -> Plain:
    total = next(iter(await store.spending.list_totals(since)), SpendTotal())
    return total_row(total, savings.compute_saved(await store.spending.list_totals(since, by="model")))


def _disk_usage(home: HermesHome) -> Plain:
    """Measure the bytes of the home by its parts, largest first.

    Counting ends after a number of files, and the result says so.
    """
    parts: dict[str, int] = {}
    count = 0
    for folder, _, names in os.walk(home.root):
        inside = os.path.relpath(folder, home.root).partition(os.sep)[0]
        for name in names:
            count += 1
            try:
                size = os.lstat(os.path.join(folder, name)).st_size
            except OSError:  # it went meanwhile
                continue
            top = name if inside == "." else inside
            parts[top] = parts.get(top, 0) + size
        if count > _MAX_COUNTED_FILES:
            break
    sorted_parts = dict(sorted(parts.items(), key=lambda one: one[1], reverse=True))
    return {"bytes": sum(parts.values()), "parts": sorted_parts, "whole": count <= _MAX_COUNTED_FILES}
