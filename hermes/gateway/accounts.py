"""Platform accounts: read from the settings, and kept connected from start to close.

Reloading of settings while the gateway runs: which accounts are closed, opened, and changed.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import TypeVar

import aiohttp
import msgspec
from msgspec import Struct

import hermes.gateway.platforms
from hermes.config.environment import fill_variables
from hermes.config.gateway import AccountSettings, ChannelSettings
from hermes.core.chats import Batch, ChatKind, Place
from hermes.core.errors import ConfigError, StoreError
from hermes.gateway.platform import (
    Descriptor,
    Platform,
    PlatformContext,
    PlatformError,
    PlatformOptions,
    PlatformRefusedError,
)
from hermes.i18n.messages import N_
from hermes.plugins import list_builtin_names, load_builtin, load_entry_point, suggest_name
from hermes.sessions.app import App
from hermes.util.cancellation import cancel_tasks

_LOG = logging.getLogger(__name__)
S = TypeVar("S", bound=Struct)
_DEFAULT_CHANNEL = ChannelSettings()
_LIST_SETTINGS = frozenset({"owners", "admins", "allow", "guests", "groups", "mention_patterns", "toolsets"})
"""Settings of every account that are lists of ids or names."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds between attempts to connect; each pause is about twice as long as the one before."""
STEADY_SECONDS = 60.0
"""Seconds after which a connection counts as stable, so that the next pause is short again."""
BatchHandler = Callable[["PlatformAccount", Batch], Awaitable[None]]


class AccountPlan(Struct, frozen=True, kw_only=True):
    """An account as the settings describe it."""

    name: str
    descriptor: Descriptor
    settings: AccountSettings
    options: PlatformOptions


def platform_names() -> tuple[str, ...]:
    """Return the names of the built-in platforms."""
    return list_builtin_names(hermes.gateway.platforms)


@cache
def load_descriptor(name: str) -> Descriptor:
    """Return the descriptor of a platform. Raises ConfigError for an unknown name."""
    found: object = None
    if name in platform_names():
        module = load_builtin(hermes.gateway.platforms, name)
        found = (load_builtin(module, "adapter") if hasattr(module, "__path__") else module).PLATFORM
    else:
        found = load_entry_point("platforms", name)
    if not isinstance(found, Descriptor):
        known = platform_names()
        near = suggest_name(name, known) or N_("Known are: {names}.", names=", ".join(known))
        raise ConfigError(N_("There is no platform {name!r}.", name=name), near)
    return found


def plan_account(name: str, given: Mapping[str, object], environ: Mapping[str, str]) -> AccountPlan | None:
    """Read an account from its settings; None when it is switched off. Raises ConfigError with what is wrong."""
    where = f"platforms.{name}"
    common = {key: value for key, value in given.items() if key in AccountSettings.__struct_fields__}
    own = {key: fill_variables(value, environ, f"{where}.{key}") for key, value in given.items() if key not in common}
    settings = _convert_settings(_normalize_lists(common), AccountSettings, where)
    if not settings.enabled:
        return None
    found = load_descriptor(settings.platform or name)
    for option, variable in found.variables.items():
        if not own.get(option) and environ.get(variable):
            own[option] = environ[variable]
    _check_keys(own, found, where)
    return AccountPlan(
        name=name, descriptor=found, settings=settings, options=_convert_settings(own, found.options, where)
    )


def _normalize_lists(given: Mapping[str, object]) -> dict[str, object]:
    """Turn lists of ids into lists of strings: YAML reads an id without quotes as a number, and people write a
    single one without brackets.
    """
    plain = dict(given)
    for key in _LIST_SETTINGS & plain.keys():
        value = plain[key]
        many = value if isinstance(value, list) else [value]
        if all(type(one) in (int, str) for one in many):
            plain[key] = [str(one) for one in many]
    if type(plain.get("home")) is int:
        plain["home"] = str(plain["home"])
    return plain


def _check_keys(own: Mapping[str, object], found: Descriptor, where: str) -> None:
    known = (*found.options.__struct_fields__, *AccountSettings.__struct_fields__)
    for key in own:
        if key not in found.options.__struct_fields__:
            near = suggest_name(key, known) or N_("It may have: {keys}.", keys=", ".join(known))
            raise ConfigError(N_("Unknown setting `{key}`.", key=f"{where}.{key}"), near)


def _convert_settings(given: object, kind: type[S], where: str) -> S:
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(
            N_("`{where}` in config.yaml is not right: {reason}.", where=where, reason=str(error)),
            N_("Fix that line and try again."),
        ) from None


def channel_settings(settings: AccountSettings, place: Place) -> ChannelSettings:
    """Return the settings of one chat, or of its thread."""
    return settings.channels.get(place.thread) or settings.channels.get(place.chat) or _DEFAULT_CHANNEL


def is_shared(settings: AccountSettings, place: Place) -> bool:
    """Return whether several people share one session here."""
    return place.kind is not ChatKind.DM and (settings.shared or bool(place.thread))


class AccountHealth(StrEnum):
    """The state of an account."""

    STARTING = "starting"
    CONNECTED = "connected"
    LOST = "lost"
    """The connection broke; it is retried."""
    REFUSED = "refused"
    """The platform refuses the account as it is configured; nothing is retried."""
    CLOSED = "closed"


class PlatformAccount:
    """One account on a platform, from `start` to `close`. Incoming batches are handed to `handle_batch`, which
    returns once they are on disk; only then is the next batch asked for.
    """

    def __init__(self, plan: AccountPlan, context: PlatformContext, handle_batch: BatchHandler) -> None:
        self.plan = plan
        self.can = plan.descriptor.can
        self.health = AccountHealth.STARTING
        self.last_problem = ""
        """The most recent problem, in words."""
        self.connections = 0
        self._context = context
        self._handle_batch = handle_batch
        self._platform: Platform | None = None
        self._task: asyncio.Task[None] | None = None
        self._health_known = asyncio.Event()
        self.connected_once = asyncio.Event()
        """Set when it is connected for the first time."""

    @property
    def name(self) -> str:
        """The name under which the account is configured."""
        return self.plan.name

    @property
    def platform(self) -> Platform:
        """The open platform. Raises PlatformError before it has started, and when it was refused."""
        if self._platform is None:
            raise PlatformError(self.last_problem or N_("{name} has not started.", name=self.name))
        return self._platform

    def start(self) -> None:
        """Connect, and keep connecting until `close`."""
        self._task = asyncio.create_task(self._run(), name=f"account {self.name}")

    async def wait_connected(self, seconds: float) -> bool:
        """Wait until the account is connected or known to have failed; return whether it is connected."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._health_known.wait()
        return self.health is AccountHealth.CONNECTED

    async def pause(self) -> None:
        """Stop receiving; what is not stored yet is not acknowledged either."""
        if self._task is not None:
            await cancel_tasks([self._task])
            self._task = None

    async def close(self) -> None:
        """Stop receiving and sending."""
        await self.pause()
        if self._platform is not None:
            await self._platform.close()
            self._platform = None
        self.health = AccountHealth.CLOSED

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            try:
                if self._platform is None:
                    self._platform = await self.plan.descriptor.open(self.plan.options, self._context)
                await self._receive(self._platform)
                why = f"{self.plan.descriptor.title} ended the connection."
            except PlatformRefusedError as error:
                self._set_health(AccountHealth.REFUSED, str(error))
                self._context.report(f"{self.name}: {error}")
                return
            except (PlatformError, StoreError, aiohttp.ClientError, OSError, TimeoutError) as error:
                why = str(error) or type(error).__name__
            except Exception as error:  # noqa: BLE001 - one platform's mistake must not end the others
                _LOG.exception("an account failed")
                why = f"{self.plan.descriptor.title} hit an internal error ({type(error).__name__})."
            pause = FIRST_PAUSE if clock() - began > STEADY_SECONDS else pause
            if self.health is not AccountHealth.LOST or why != self.last_problem:
                self._context.report(f"{self.name}: {why} It is tried again.")
            self._set_health(AccountHealth.LOST, why)
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _receive(self, platform: Platform) -> None:
        async with contextlib.aclosing(platform.receive()) as batches:
            async for batch in batches:
                if self.health is not AccountHealth.CONNECTED:
                    self.connections += 1
                    if self.health is AccountHealth.LOST:
                        self._context.report(f"{self.name}: connected again.")
                    self._set_health(AccountHealth.CONNECTED, "")
                if batch.arrivals or batch.cursors:
                    await self._handle_batch(self, batch)

    def _set_health(self, health: AccountHealth, problem: str) -> None:
        self.health, self.last_problem = health, problem
        if health is not AccountHealth.STARTING:
            self._health_known.set()
        if health is AccountHealth.CONNECTED:
            self.connected_once.set()


def plan_accounts(
    given: Mapping[str, Mapping[str, object]], environ: Mapping[str, str]
) -> tuple[list[AccountPlan], Sequence[str]]:
    """Read every configured account, and a line for each that cannot be used: a wrong one
    keeps no other from running.
    """
    plans, wrong = [], []
    for name, options in given.items():
        try:
            plan = plan_account(name, options, environ)
        except ConfigError as error:
            wrong.append(str(error))
        else:
            plans += [plan] if plan is not None else []
    return plans, wrong


def find_missing_secret(plan: AccountPlan) -> str:
    """Return a line about the secret without which an account cannot be started; empty when it is there."""
    named = plan.descriptor.needs_option
    if not named or getattr(plan.options, named):
        return ""
    return N_(
        "platforms.{name} has no {secret}: set it there, or {variable} in the home's .env.",
        name=plan.name,
        secret=named,
        variable=plan.descriptor.variables[named],
    )


class AccountChanges(Struct, frozen=True):
    """The changes to the accounts. A changed account is both `gone` and `fresh`; `config_problems` has a line for
    each that cannot be used, which stays as it is.
    """

    gone: Sequence[str]
    fresh: Sequence[AccountPlan]
    config_problems: Sequence[str]

    @property
    def names(self) -> list[str]:
        """The names of the accounts that change."""
        return list(dict.fromkeys([*self.gone, *(plan.name for plan in self.fresh)]))


def compare_plans(
    app: App, accounts: Mapping[str, PlatformAccount], platforms: Mapping[str, Mapping[str, object]]
) -> AccountChanges:
    """Return how these settings of accounts differ from the accounts that are open."""
    plans, wrong = plan_accounts(platforms, app.services.environ)
    wanted = {plan.name: plan for plan in plans}
    on_now = {name for name, given in platforms.items() if given.get("enabled", True)}
    kept = on_now.difference(wanted)  # it is set up in a way that cannot be used
    gone = [name for name, one in accounts.items() if name not in kept and wanted.get(name) != one.plan]
    fresh = [plan for plan in plans if plan.name not in accounts or plan.name in gone]
    return AccountChanges(gone, fresh, wrong)
