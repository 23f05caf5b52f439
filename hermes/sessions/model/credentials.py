"""The API keys of each endpoint: given ones, those of the environment, and those of the home's `auth.json`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import structs

from hermes.config.auth_file import AuthEntry, read_entries
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome
from hermes.config.settings import Settings, Strategy
from hermes.core.errors import ConfigError
from hermes.core.protocols import KeyLedger
from hermes.core.stream import Failure
from hermes.i18n.messages import N_
from hermes.llm.key_pool import KeyPool, KeySlot, ProviderKeys, SingleKey
from hermes.llm.key_sources import CommandKeySource, KeyringKeySource, KeySource, LiteralKeySource, VariableKeySource
from hermes.providers.records import check_refused_key, is_valid_key, load_record
from hermes.providers.resolve import ModelChoice, is_own_address, list_environment_keys
from hermes.providers.wire import Endpoint, ProviderRecord
from hermes.util.clock import Clock

if TYPE_CHECKING:
    from hermes.llm.sign_in_keys import SignInSlot
    from hermes.oauth.requests import HttpAnswer, SendRequest
    from hermes.providers.model_facts import ModelFile
    from hermes.providers.named import NamedProvider


SIGN_IN_EARLY_SECONDS = 300.0
"""Seconds before its end at which the token of an account is refreshed."""


class Credentials:
    """The key pools of a process: one for each provider and address, shared by all of its sessions."""

    def __init__(
        self,
        home: HermesHome,
        process: Mapping[str, str],
        settings: Settings,
        clock: Clock,
        ledger: KeyLedger | None = None,
        learn: Callable[[str, str], None] | None = None,
    ) -> None:
        """`learn` is called with the name and the value of every key that is read while the process runs."""
        self._home = home
        self._process = process
        self._environ = merge_dotenv(process, home.env_file)
        self._settings = settings
        self._clock = clock
        self.ledger = ledger
        self._learn = learn
        self._sign_ins: list[SignInSlot] = []
        self._pools: dict[tuple[str, str, tuple[str, ...]], ProviderKeys] = {}

    async def close(self) -> None:
        """Wait for refreshes that are under way: what they bring has to be stored."""
        for slot in self._sign_ins:
            await slot.close()

    def keys_for_endpoint(self, endpoint: Endpoint, choice: ModelChoice) -> ProviderKeys:
        """Return the keys of an endpoint that was resolved from this choice. Raises ConfigError for a bad entry."""
        own = endpoint.api_key if endpoint.key_given else ""
        given = tuple(dict.fromkeys(key for key in (own, *choice.more_keys) if key))
        place = (pool_name(endpoint), endpoint.base_url, given)
        found = self._pools.get(place)
        if found is None:
            found = self._pools[place] = self._create_keys(endpoint, choice, given)
        return found

    def create_pool(self, name: str, slots: list[KeySlot], title: str) -> KeyPool:
        """Create a pool of these slots, with the strategy that the settings name."""
        strategies = self._settings.credential_pool_strategies
        strategy = strategies.get(name) or strategies.get(name.partition(":")[0]) or Strategy.FILL_FIRST
        return KeyPool(name, slots, self._clock, title=title, strategy=Strategy(strategy), ledger=self.ledger)

    def list_slots(
        self, name: str, found: ProviderRecord, *, own_address: bool, variables: bool = True, address: str = ""
    ) -> list[KeySlot]:
        """List the slots of a provider's keys: its variables, then the home's entries; each value once.

        `address`: where the keys are to go; a sign-in that was made for another one is left out.
        """
        environ = self._environ if variables else {}
        slots = [
            KeySlot(f"env:{place}", self._variable_source(place, found), label=place, key=key)
            for place, key in list_environment_keys(found, environ, own_address=own_address)
        ]
        known = {slot.key for slot in slots}
        for entry in read_entries(self._home).get(name, ()):
            if _is_for_other_address(entry, address):
                continue
            slot = self._entry_slot(entry)
            if not slot.key or slot.key not in known:
                known.add(slot.key)
                slots.append(slot)
        for slot in slots:
            if slot.key and not is_valid_key(slot.key):
                raise ConfigError(
                    N_(
                        "The API key {label} for {title} holds a space, a line break or a typographic sign.",
                        label=slot.label,
                        title=found.title,
                    ),
                    "No key does: give it again.",
                )
            check_refused_key(slot.key)
        return slots

    def _create_keys(self, endpoint: Endpoint, choice: ModelChoice, given: tuple[str, ...]) -> ProviderKeys:
        name, title = pool_name(endpoint), endpoint.record.title
        if endpoint.record.name == "local":
            return SingleKey(endpoint.api_key)
        for key in given:
            check_refused_key(key)
        if given:
            payers = dict(zip(choice.more_keys, choice.key_organisations, strict=False))
            slots = [
                KeySlot(
                    f"given:{number}",
                    LiteralKeySource(key, "given"),
                    label=f"given {number}",
                    organisation=payers.get(key, ""),
                    key=key,
                )
                for number, key in enumerate(given, 1)
            ]
        else:
            own = is_own_address(choice, self._environ)
            slots = self.list_slots(name, endpoint.record, own_address=own, address=endpoint.base_url)
            if not slots and endpoint.record.sign_in:
                raise ConfigError(
                    N_("You are signed in to {title} at another address.", title=title),
                    N_("`hermes auth login {name}` signs you in.", name=endpoint.record.sign_in),
                )
        return self.create_pool(name, slots, title) if slots else SingleKey(endpoint.api_key)

    def _variable_source(self, place: str, found: ProviderRecord) -> KeySource:
        """Return a source that reads one of the provider's variables again from the environment and `.env`."""

        def read_variables() -> dict[str, str]:
            return dict(list_environment_keys(found, merge_dotenv(self._process, self._home.env_file)))

        return self._with_learning(VariableKeySource(place, read_variables), place)

    def _with_learning(self, source: KeySource, name: str) -> KeySource:
        return source if self._learn is None else _LearningSource(source, name, self._learn)

    def _entry_slot(self, entry: AuthEntry) -> KeySlot:
        if entry.kind == "oauth":
            return self._sign_in_slot(entry)
        source, key = self._entry_source(entry)
        source = self._with_learning(source, f"auth.{entry.id}")
        return KeySlot(f"auth:{entry.id}", source, label=entry.label, organisation=entry.organisation, key=key)

    def _sign_in_slot(self, entry: AuthEntry) -> KeySlot:
        """Return the slot of an account that is signed in to. What it stands on is imported only where there is one."""
        from hermes.llm.sign_in_keys import SignInSlot
        from hermes.oauth.token_keeper import TokenKeeper
        from hermes.oauth.token_store import TokenStore

        learn = self._learn or (lambda _name, _value: None)
        store = TokenStore(self._home.oauth_file, self._home.locks, lambda secret: learn("oauth", secret))
        send = make_account_sender(self._environ, self._settings)
        keeper = TokenKeeper(store, entry.name, send, self._clock.now, early_seconds=SIGN_IN_EARLY_SECONDS)
        slot = SignInSlot(
            f"auth:{entry.id}", keeper, label=entry.label, organisation=entry.organisation, vendor=entry.user
        )
        self._sign_ins.append(slot)
        return slot

    def _entry_source(self, entry: AuthEntry) -> tuple[KeySource, str]:
        """Return an entry's source, and its key where it is known without a cost."""
        match entry.kind:
            case "key":
                return LiteralKeySource(entry.key, "auth.json"), entry.key
            case "env":
                variable = VariableKeySource(entry.name, lambda: merge_dotenv(self._process, self._home.env_file))
                return variable, self._environ.get(entry.name, "").strip()
            case "command":
                return CommandKeySource(entry.command, self._environ), ""
            case "keyring":
                return KeyringKeySource(entry.service, entry.user), ""
        raise ConfigError(
            N_(
                "{auth_file}: {label} is of the kind {kind}, which this version does not know.",
                auth_file=self._home.auth_file,
                label=entry.label,
                kind=repr(entry.kind),
            )
        )


class _LearningSource:
    """A key source that reports every key it reads."""

    def __init__(self, source: KeySource, name: str, learn: Callable[[str, str], None]) -> None:
        self.renewable = source.renewable
        self._source = source
        self._name = name
        self._learn = learn

    @property
    def description(self) -> str:
        """The description of the source."""
        return self._source.description

    async def read_key(self) -> str:
        """Read the key."""
        key = await self._source.read_key()
        self._learn(self._name, key)
        return key


def _is_for_other_address(entry: AuthEntry, address: str) -> bool:
    """Return whether an entry is a sign-in whose tokens were given for another address than this one (empty: any)."""
    if entry.kind != "oauth" or not address:
        return False
    # One API format has the version in its path instead of in the address.
    return entry.service.rstrip("/").removesuffix("/v1") != address.rstrip("/").removesuffix("/v1")


def make_account_sender(environ: Mapping[str, str], settings: Settings) -> "SendRequest":
    """Return what sends the requests of a sign-in to a vendor. Their addresses are a record's or the person's own
    words, so each one's host is open.
    """
    from hermes.sessions.mcp_servers import make_oauth_sender

    async def send(method: str, url: str, *, headers: Mapping[str, str], body: bytes) -> "HttpAnswer":
        return await make_oauth_sender(environ, settings, url)(method, url, headers=headers, body=body)

    return send


def pool_name(endpoint: Endpoint) -> str:
    """Return the name of an endpoint's key pool: the provider's; for a server of the user's own, with its host."""
    if endpoint.record.name != "custom":
        return endpoint.record.name
    return f"custom:{urlsplit(endpoint.base_url).netloc.rpartition('@')[2].lower()}"


def with_stored_providers(choice: ModelChoice, home: HermesHome, settings: Settings) -> ModelChoice:
    """Return the choice with the providers that the home holds keys for, and those that the settings name.

    Raises ConfigError for a broken `auth.json`, and for an entry of the settings that cannot be used.
    """
    choice = structs.replace(choice, stored=tuple(read_entries(home)), refreshed=_read_model_file(home))
    named = list_named_providers(home, settings)
    if not named:
        return choice
    from hermes.providers.named import NamedProviders

    return structs.replace(choice, named=NamedProviders(named))


def _read_model_file(home: HermesHome) -> "ModelFile | None":
    try:
        raw = home.models_file.read_bytes()
    except OSError:
        return None
    from hermes.providers.model_facts import parse_model_file

    return parse_model_file(raw, str(home.models_file))


def list_named_providers(home: HermesHome, settings: Settings) -> "tuple[NamedProvider, ...]":
    """Return the providers that the settings name. Raises ConfigError for an entry that cannot be used."""
    if not settings.providers and not settings.custom_providers:
        return ()
    from hermes.providers.named import build_named_providers

    return build_named_providers(settings, home.config_file)


def load_known_record(name: str, home: HermesHome, settings: Settings) -> ProviderRecord:
    """Return the record of a provider that the settings name, else of the catalogue. Raises ConfigError."""
    named = list_named_providers(home, settings)
    if not named:
        return load_record(name)
    from hermes.providers.named import find_record

    return find_record(name, named)


async def with_pool_key(endpoint: Endpoint, keys: ProviderKeys) -> Endpoint:
    """Return the endpoint with a key of the pool, for requests beside the calls; unchanged when no key is usable."""
    lease = await keys.lease_key(endpoint.model)
    return endpoint if isinstance(lease, Failure) else lease.use_in(endpoint)
