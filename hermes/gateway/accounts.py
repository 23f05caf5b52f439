"""Accounts on platforms: what the settings say of each, and its life from its start to its end."""

import asyncio
import contextlib
import logging
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import TypeVar

import aiohttp
import msgspec
from msgspec import Struct

import hermes.gateway.platforms
from hermes.config.gateway import AccountSettings
from hermes.core.chats import Batch
from hermes.core.errors import ConfigError, StoreError
from hermes.gateway.platform import Descriptor, Options, Platform, PlatformError, PlatformRefusedError, Surroundings
from hermes.i18n.messages import phrase
from hermes.plugins import builtin_names, load_builtin, load_outside, suggestion

_LOG = logging.getLogger(__name__)
S = TypeVar("S", bound=Struct)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_LISTS = frozenset({"owners", "admins", "allow", "guests", "groups", "mention_patterns", "toolsets"})
"""Settings of every account that are lists of ids or names."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds between attempts to connect; each is twice as long as the one before, give or take."""
STEADY = 60.0
"""Seconds after which a connection has held, so that the next pause is short again."""


class Plan(Struct, frozen=True, kw_only=True):
    """An account as it is set up."""

    name: str
    descriptor: Descriptor
    settings: AccountSettings
    options: Options


def platform_names() -> tuple[str, ...]:
    """The platforms that are built in."""
    return builtin_names(hermes.gateway.platforms)


@cache
def descriptor(name: str) -> Descriptor:
    """What is known of a platform. Raises ConfigError for one that nobody knows."""
    found: object = None
    if name in platform_names():
        module = load_builtin(hermes.gateway.platforms, name)
        found = (load_builtin(module, "adapter") if hasattr(module, "__path__") else module).PLATFORM
    else:
        found = load_outside("platforms", name)
    if not isinstance(found, Descriptor):
        known = platform_names()
        near = suggestion(name, known) or phrase("Known are: {names}.", names=", ".join(known))
        raise ConfigError(phrase("There is no platform {name!r}.", name=name), near)
    return found


def plan_of(name: str, given: Mapping[str, object], environ: Mapping[str, str]) -> Plan | None:
    """What the settings say of an account; None when it is switched off. Raises ConfigError with what is wrong."""
    where = f"platforms.{name}"
    common = {key: value for key, value in given.items() if key in AccountSettings.__struct_fields__}
    own = {key: filled(value, environ, f"{where}.{key}") for key, value in given.items() if key not in common}
    settings = _converted(_plain(common), AccountSettings, where)
    if not settings.enabled:
        return None
    found = descriptor(settings.platform or name)
    for option, variable in found.variables.items():
        if not own.get(option) and environ.get(variable):
            own[option] = environ[variable]
    _check_keys(own, found, where)
    return Plan(name=name, descriptor=found, settings=settings, options=_converted(own, found.options, where))


def _plain(given: Mapping[str, object]) -> dict[str, object]:
    """Lists of ids as they are meant: YAML reads an id without quotes as a number, and people write a single one
    without brackets."""
    plain = dict(given)
    for key in _LISTS & plain.keys():
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
            near = suggestion(key, known) or phrase("It may have: {keys}.", keys=", ".join(known))
            raise ConfigError(phrase("Nobody knows the key `{key}`.", key=f"{where}.{key}"), near)


def _converted(given: object, kind: type[S], where: str) -> S:
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(
            phrase("`{where}` in config.yaml is not right: {reason}.", where=where, reason=str(error)),
            phrase("Mend that line and try again."),
        ) from None


def filled(value: object, environ: Mapping[str, str], where: str) -> object:
    """The value with `${VARIABLE}` filled in. Raises ConfigError for one that is not there."""
    if isinstance(value, dict):
        return {key: filled(inner, environ, f"{where}.{key}") for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, environ, where) for inner in value]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise ConfigError(
                phrase("`{where}` names the variable {name}, which is not set.", where=where, name=match[1]),
                phrase("Put it into the home's .env file, or into the environment."),
            )
        return environ[match[1]]

    return _VARIABLE.sub(fill, value)


class Health(StrEnum):
    """How an account is."""

    STARTING = "starting"
    CONNECTED = "connected"
    LOST = "lost"
    """The connection broke; it is tried again."""
    REFUSED = "refused"
    """The platform does not take it as it is set up; nothing is tried again."""
    CLOSED = "closed"


TakeIn = Callable[["Account", Batch], Awaitable[None]]


class Account:
    """One account on a platform, from `start` to `close`. What comes in is handed to `take_in`, which returns once it
    is on disk; only then is the next batch asked for."""

    def __init__(self, plan: Plan, surroundings: Surroundings, take_in: TakeIn) -> None:
        self.plan = plan
        self.can = plan.descriptor.can
        self.health = Health.STARTING
        self.why = ""
        """What went wrong last."""
        self.connections = 0
        self._around = surroundings
        self._take_in = take_in
        self._platform: Platform | None = None
        self._task: asyncio.Task[None] | None = None
        self._up = asyncio.Event()

    @property
    def name(self) -> str:
        """The name under which it is set up."""
        return self.plan.name

    @property
    def platform(self) -> Platform:
        """What sends. Raises PlatformError before it has started, and when it was refused."""
        if self._platform is None:
            raise PlatformError(self.why or f"{self.name} has not started.")
        return self._platform

    def start(self) -> None:
        """Connect, and go on with that until `close`."""
        self._task = asyncio.create_task(self._run(), name=f"account {self.name}")

    async def connected(self, seconds: float) -> bool:
        """Wait until it is connected, or known not to be; whether it is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._up.wait()
        return self.health is Health.CONNECTED

    async def pause(self) -> None:
        """Stop receiving; what was not written down yet was not acknowledged either."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def close(self) -> None:
        """Stop receiving and sending."""
        await self.pause()
        if self._platform is not None:
            await self._platform.close()
            self._platform = None
        self.health = Health.CLOSED

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            try:
                if self._platform is None:
                    self._platform = await self.plan.descriptor.open(self.plan.options, self._around)
                await self._receive(self._platform)
                why = f"{self.plan.descriptor.title} ended the connection."
            except PlatformRefusedError as error:
                self._say(Health.REFUSED, str(error))
                self._around.report(f"{self.name}: {error}")
                return
            except (PlatformError, StoreError, aiohttp.ClientError, OSError, TimeoutError) as error:
                why = str(error) or type(error).__name__
            except Exception as error:  # noqa: BLE001 - one platform's mistake must not end the others
                _LOG.exception("an account failed")
                why = f"{self.plan.descriptor.title} failed by an error of Hermes' own ({type(error).__name__})."
            pause = FIRST_PAUSE if clock() - began > STEADY else pause
            if self.health is not Health.LOST or why != self.why:
                self._around.report(f"{self.name}: {why} It is tried again.")
            self._say(Health.LOST, why)
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _receive(self, platform: Platform) -> None:
        async with contextlib.aclosing(platform.receive()) as batches:
            async for batch in batches:
                if self.health is not Health.CONNECTED:
                    self.connections += 1
                    if self.health is Health.LOST:
                        self._around.report(f"{self.name}: connected again.")
                    self._say(Health.CONNECTED, "")
                if batch.arrivals or batch.cursors:
                    await self._take_in(self, batch)

    def _say(self, health: Health, why: str) -> None:
        self.health, self.why = health, why
        if health is not Health.STARTING:
            self._up.set()


def plans_of(given: Mapping[str, Mapping[str, object]], environ: Mapping[str, str]) -> tuple[list[Plan], Sequence[str]]:
    """Every account that is set up, and a line for each that cannot be used: one that is wrong keeps no other from
    running."""
    plans, wrong = [], []
    for name, options in given.items():
        try:
            plan = plan_of(name, options, environ)
        except ConfigError as error:
            wrong.append(str(error))
        else:
            plans += [plan] if plan is not None else []
    return plans, wrong
