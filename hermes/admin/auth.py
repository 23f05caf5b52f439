"""The administration of API keys, shared by every front-end. Nothing here reveals a key."""

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import structs

from hermes.admin.home_services import open_existing_store
from hermes.config.auth_file import AuthEntry, add_entry, read_entries, remove_entry
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.encoding import Plain
from hermes.core.errors import ConfigError, NotFoundError, UsageError
from hermes.core.protocols import KeyLedger
from hermes.i18n.messages import N_
from hermes.llm.key_pool import KeyPool, KeyState, key_ending
from hermes.llm.key_sources import SIGN_IN_SOURCE, split_command
from hermes.plugins import suggest_name
from hermes.providers.records import (
    ALIASES,
    KEY_VARIABLES,
    check_refused_key,
    is_valid_key,
    list_provider_names,
    load_record,
)
from hermes.providers.resolve import ModelChoice, is_own_address, resolve_endpoint
from hermes.providers.wire import Endpoint, ProviderRecord
from hermes.sessions.model.credentials import Credentials, list_named_providers, pool_name, with_stored_providers
from hermes.sessions.model.model_route import choose_model
from hermes.sessions.options import SessionOptions
from hermes.util.clock import SystemClock
from hermes.util.text import strip_control_characters, to_one_line

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SERVER = re.compile(r"[a-z0-9.\-\[\]:]+", re.ASCII)
_MAX_LABEL_LENGTH = 60


@asynccontextmanager
async def open_key_admin(environ: Mapping[str, str]) -> "AsyncIterator[KeyAdmin]":
    """Open the key administration of this home.

    Reading creates nothing: without a database nothing is known about any key.
    """
    home = locate_home(environ)
    async with open_existing_store(home) as store:
        yield KeyAdmin(home, environ, None if store is None else store.keys)


class KeyAdmin:
    """The operations on API keys."""

    def __init__(self, home: HermesHome, environ: Mapping[str, str], ledger: KeyLedger | None) -> None:
        self._home = home
        self._environ = merge_dotenv(environ, home.env_file)
        self._settings: Settings = load_settings(home).settings
        self._named = list_named_providers(home, self._settings)
        self._ledger = ledger
        self._credentials = Credentials(home, environ, self._settings, SystemClock(), ledger)

    async def list_keys(self) -> list[Plain]:
        """List every key by provider, with its source and state."""
        choice = with_stored_providers(choose_model(self._settings.model, SessionOptions()), self._home, self._settings)
        endpoint = self._configured_endpoint(choice)
        rows: list[Plain] = []
        for name in self._pool_names(endpoint):
            rows += await self._provider_rows(name, choice, endpoint)
        return rows

    def add_key(self, provider: str, entry: AuthEntry) -> Plain:
        """Store a key, or where to find it; `entry` needs no id and no label.

        Raises UsageError for what cannot be a key.
        """
        name = self.resolve_provider(provider)
        _check_entry(entry)
        check_refused_key(entry.key)
        if _find_only_sign_in(name):
            raise UsageError(
                N_("{name} takes no keys.", name=name),
                N_("`hermes auth login {name}` signs you in.", name=_find_only_sign_in(name)),
            )
        self._home.ensure_exists()
        entries = read_entries(self._home).get(name, ())
        if entry.key and any(other.key == entry.key for other in entries):
            raise UsageError(N_("This key of {name} is there already.", name=name), "`hermes auth list` shows it.")
        label = self._choose_label(entry, [other.label for other in entries])
        new = structs.replace(entry, id=os.urandom(6).hex(), label=label)
        add_entry(self._home, name, new)
        return {"provider": name, "label": label, "kind": entry.kind, "ending": key_ending(entry.key)}

    async def remove_key(self, provider: str, which: str) -> Plain:
        """Remove an entry of `auth.json`. Raises NotFoundError, and UsageError for a key that is kept elsewhere."""
        row = await self.find_key(provider, which)
        slot = str(row["slot"])
        if row["source"] == SIGN_IN_SOURCE:
            raise UsageError(N_("{row} is a sign-in.", row=row["label"]), N_("`hermes auth logout VENDOR` ends it."))
        if not slot.startswith("auth:"):
            where = "config.yaml" if slot.startswith("given:") else "`.env` or the environment"
            raise UsageError(
                N_("{row} is not in auth.json.", row=row["label"]), N_("Take it out of {where}.", where=where)
            )
        remove_entry(self._home, str(row["provider"]), slot.removeprefix("auth:"))
        if self._ledger is not None:
            await self._ledger.clear(str(row["provider"]), slot)
        return row

    async def reset_cooldowns(self, provider: str = "", which: str = "") -> int:
        """End the cooldowns of one key, of a provider's keys, or of all; return how many ended.

        The counts of uses stay.
        """
        if which:
            row = await self.find_key(provider, which)
            name, slot = str(row["provider"]), str(row["slot"])
        else:
            name, slot = self.resolve_provider(provider) if provider else "", ""
        if self._ledger is None:
            return 0
        return await self._ledger.clear(name or None, slot or None)

    async def find_key(self, provider: str, which: str) -> Plain:
        """Return the provider's key with that label or number. Raises NotFoundError with the nearest label."""
        name = self.resolve_provider(provider)
        rows = [row for row in await self.list_keys() if row["provider"] == name]
        found = next((row for row in rows if which in (row["label"], str(row["number"]))), None)
        if found is None:
            near = suggest_name(which, [str(row["label"]) for row in rows])
            raise NotFoundError(
                N_("{name} has no key {which}.", name=name, which=repr(which)), near or "`hermes auth list` shows them."
            )
        return found

    def resolve_provider(self, given: str) -> str:
        """Return the canonical name of a provider. Raises UsageError.

        A server of the user's own is `custom:HOST` or `custom:HOST:PORT`.
        """
        own = self._named_record(given)
        if own is not None:
            return own.name
        name, _, server = given.strip().lower().partition(":")
        name = ALIASES.get(name, name)
        if name not in list_provider_names():
            try:
                name = load_record(name).name
            except ConfigError as error:
                near = suggest_name(name, [*list_provider_names(), *ALIASES])
                raise UsageError(
                    error.message,
                    near
                    or N_("Known are: {list_provider_names}.", list_provider_names=", ".join(list_provider_names())),
                ) from None
        if name == "local":
            raise UsageError("The embedded model needs no key.")
        if name != "custom":
            return name
        if not _SERVER.fullmatch(server):
            raise UsageError(
                "A key for a server of one's own goes to that server only.", "Name it: custom:HOST or custom:HOST:PORT."
            )
        return f"custom:{server}"

    def _named_record(self, name: str) -> ProviderRecord | None:
        """Return the record of a provider that the settings name, or None."""
        if not self._named:
            return None
        from hermes.providers.named import find_named

        found = find_named(name, self._named)
        return found.record if found is not None else None

    def _configured_endpoint(self, choice: ModelChoice) -> Endpoint | None:
        """Return the endpoint that the settings lead to, or None when they lead nowhere."""
        try:
            return resolve_endpoint(choice, self._environ)
        except ConfigError:
            return None

    def _pool_names(self, endpoint: Endpoint | None) -> Sequence[str]:
        """Return the names of all pools that may have a key, first those used when no provider is named."""
        used = [pool_name(endpoint)] if endpoint is not None else []
        named = [name for name in list_provider_names() if name not in ("custom", "local")]
        own = [one.record.name for one in self._named]
        return list(dict.fromkeys([*used, *KEY_VARIABLES, *own, *named, *read_entries(self._home)]))

    async def _provider_rows(self, name: str, choice: ModelChoice, endpoint: Endpoint | None) -> list[Plain]:
        found = self._named_record(name) or load_record(name.partition(":")[0])
        here = endpoint is not None and pool_name(endpoint) == name
        own = is_own_address(choice, self._environ) if here else found.name != "custom"
        accounts = {f"auth:{one.id}": one.user for one in read_entries(self._home).get(name, ()) if one.kind == "oauth"}
        slots = self._credentials.list_slots(name, found, own_address=own, variables=here or found.name != "custom")
        pool = self._credentials.create_pool(name, slots, found.title)
        states = await pool.list_key_states() if slots else []
        if here:
            states = [*await self._given_key_states(choice, endpoint), *states]
        states = [self._add_sign_in_state(state, accounts.get(state.slot, "")) for state in states]
        return [
            {"provider": name, "number": number, "strategy": pool.strategy.value, **structs.asdict(state)}
            for number, state in enumerate(states, 1)
        ]

    def _add_sign_in_state(self, state: KeyState, vendor: str) -> KeyState:
        """Return the state of an account that is signed in to, with what the store knows; any other as it is."""
        if not vendor:
            return state
        from hermes.admin.sign_in import read_sign_in_state

        found = read_sign_in_state(self._home, vendor)
        why = found.reason if found.state == "dead" else state.reason if state.state == "dead" else ""
        if not why:
            return state
        reason = N_("{why}; `hermes auth login {name}` signs you in again", why=why, name=vendor)
        return structs.replace(state, state="dead", reason=reason)

    async def _given_key_states(self, choice: ModelChoice, endpoint: Endpoint | None) -> Sequence[KeyState]:
        """Return the state of the key in `model.api_key`, which is used instead of all others."""
        if not choice.api_key or endpoint is None:
            return []
        pool = self._credentials.keys_for_endpoint(endpoint, choice)
        states = await pool.list_key_states() if isinstance(pool, KeyPool) else []
        return [
            structs.replace(state, label="model.api_key", source="config.yaml, in place of all") for state in states
        ]

    def _choose_label(self, entry: AuthEntry, taken: Sequence[str]) -> str:
        """Return the entry's label, or a new one that is not taken."""
        label = to_one_line(strip_control_characters(entry.label), _MAX_LABEL_LENGTH)
        if label in taken:
            raise UsageError(
                N_("There is a key of the label {label} already.", label=repr(label)), "Choose another --label."
            )
        if label.isdecimal():
            raise UsageError(
                "A label of digits only would be taken for a number in the list.", "Choose another --label."
            )
        if label:
            return label
        base = {"env": entry.name, "command": entry.command.split()[0] if entry.command else "", "keyring": "keyring"}
        stem = os.path.basename(base.get(entry.kind, "") or "key")
        numbered = (f"{stem}-{number}" for number in range(1, len(taken) + 2))
        return next(label for label in ([stem] if stem != "key" else []) + list(numbered) if label not in taken)


def _find_only_sign_in(name: str) -> str:
    """Return what the sign-in of a provider without keys is called; empty for one with keys."""
    known = name.partition(":")[0]
    return load_record(known).sign_in if known in list_provider_names() else ""


def _check_entry(entry: AuthEntry) -> None:
    """Raise UsageError for an entry that can never give a key."""
    match entry.kind:
        case "key":
            if not entry.key:
                raise UsageError("No key was given.")
            if not is_valid_key(entry.key):
                raise UsageError("What was given holds a space, a line break or a typographic sign, which no key does.")
        case "env":
            if not _VARIABLE.fullmatch(entry.name):
                raise UsageError("--env takes the name of a variable, not a key.", "Such as: --env MY_SECOND_KEY")
        case "command":
            split_command(entry.command)
        case _:
            if not entry.service or not entry.user:
                raise UsageError("--keyring takes SERVICE/USER.", "Such as: --keyring hermes/openrouter")
