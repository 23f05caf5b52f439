"""Webhook routes: what other programs may report, and what is done with it; and those that were added by the verb."""

import asyncio
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, structs

from hermes.config.environment import with_dotenv
from hermes.config.home import Home
from hermes.config.load import load_settings
from hermes.core.errors import ConfigError, NotFoundError, UsageError
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import phrase
from hermes.util.atomic import write_atomic

SHORTEST_SECRET = 16
MOST_ROUTES = 500
_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,63}", re.ASCII)
_FILE = "webhooks.json"
_HOST, _PORT = "127.0.0.1", 8644
SIGNATURE = "X-Webhook-Signature-V2"


class Scheme(StrEnum):
    """How a program proves that it knows the secret."""

    AUTO = "auto"
    """Whichever of those below the request carries."""
    GITHUB = "github"
    """`X-Hub-Signature-256`: HMAC-SHA256 of the body."""
    GITLAB = "gitlab"
    """`X-Gitlab-Token`: the secret itself."""
    V1 = "v1"
    """`X-Webhook-Signature`: HMAC-SHA256 of the body, in hex."""
    V2 = "v2"
    """`X-Webhook-Signature-V2` or `Stripe-Signature`: `t=SECONDS,v1=HEX`, HMAC-SHA256 of `SECONDS.BODY`."""


class Route(KeyHolder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done with what comes to one address (`platforms.webhook.routes.NAME`)."""

    secret: str
    """What both sides know; 16 characters at least."""
    prompt: str = "Something was reported: {payload}"
    """What the agent is told to do. `{a.b.c}` names a field of what came; `{payload}` is all of it."""
    scheme: Scheme = Scheme.AUTO
    """How the secret is proved: `auto`, `github`, `gitlab`, `v1`, `v2`."""
    events: tuple[str, ...] = ()
    """Kinds of events that are looked at; empty: all."""
    filters: Mapping[str, str | int | bool | tuple[str | int | bool, ...]] = {}
    """Fields that must have a value, or one of several: `{action: [opened, reopened]}`."""
    skills: tuple[str, ...] = ()
    """Skills that the agent is told first."""
    deliver: str = "log"
    """Where the answer goes: `log`, or `PLATFORM:CHAT[:THREAD]`."""
    deliver_only: bool = False
    """Whether the prompt itself is delivered, filled in, without a model."""
    role: str = "user"
    """What the agent may do in its work on it: `owner`, `admin`, `user`, `guest`."""
    model: str = ""
    """The model that works on it; empty: the usual one."""
    per_minute: Annotated[int, Meta(ge=1, le=10_000)] = 30
    """How many reports are taken in a minute."""

    def check(self, name: str) -> None:
        """Raise ConfigError for what cannot be used."""
        if not _NAME.fullmatch(name):
            raise ConfigError(phrase("The webhook {name!r} needs a name of letters, digits, _ and -.", name=name[:80]))
        if len(self.secret) < SHORTEST_SECRET or not self.secret.isascii():
            raise ConfigError(
                phrase("The secret of the webhook {name!r} can be guessed.", name=name),
                phrase("Make one of {n} characters of ASCII at least: openssl rand -hex 32", n=SHORTEST_SECRET),
            )
        if self.role not in ("owner", "admin", "user", "guest"):
            raise ConfigError(phrase("The webhook {name!r} has a role that nobody knows.", name=name))
        if self.deliver != "log" and ":" not in self.deliver:
            raise ConfigError(
                phrase("The webhook {name!r} delivers to nowhere.", name=name),
                phrase("`deliver` is `log`, or PLATFORM:CHAT."),
            )


Routes = dict[str, Route]


class Subscriptions:
    """The routes that were added by the verb, in a file of the home that only the person can read."""

    def __init__(self, home: Home) -> None:
        self.file: Path = home.root / _FILE
        self._seen: tuple[int, int] | None = None
        self._routes: Routes = {}

    def read(self) -> Routes:
        """All of them; read anew when the file has changed. Raises ConfigError for one that is no such file."""
        try:
            found = os.stat(self.file)
        except FileNotFoundError:
            self._seen, self._routes = None, {}
            return {}
        if self._seen == (found.st_mtime_ns, found.st_ino):
            return self._routes
        try:
            self._routes = msgspec.json.decode(self.file.read_bytes(), type=Routes)
        except (msgspec.MsgspecError, OSError, RecursionError) as error:
            raise ConfigError(
                phrase("{file} cannot be read: {why}", file=str(self.file), why=str(error)),
                phrase("`hermes webhook` writes it; delete it to begin anew."),
            ) from None
        self._seen = found.st_mtime_ns, found.st_ino
        return self._routes

    def write(self, routes: Routes) -> None:
        """Put these in the place of those that are there."""
        write_atomic(self.file, msgspec.json.format(msgspec.json.encode(routes)) + b"\n", mode=0o600)


class WebhookDesk:
    """What the person can do with routes."""

    def __init__(self, home: Home) -> None:
        self._file = Subscriptions(home)
        self._home = home

    def routes(self) -> Routes:
        """Those that were added."""
        return dict(self._file.read())

    def find(self, name: str) -> Route:
        """One of them. Raises NotFoundError."""
        found = self._file.read().get(name)
        if found is None:
            raise NotFoundError(
                phrase("There is no webhook {name!r}.", name=name[:80]), phrase("`hermes webhook list` shows them.")
            )
        return found

    def add(self, name: str, given: Mapping[str, object]) -> Route:
        """Add one, with a fresh secret where none is given. Raises UsageError and ConfigError."""
        routes = self.routes()
        if name in routes:
            raise UsageError(phrase("There is a webhook {name!r} already.", name=name[:80]))
        if len(routes) >= MOST_ROUTES:
            raise UsageError(phrase("There are {n} webhooks already.", n=MOST_ROUTES))
        filled = {"secret": secrets.token_hex(32), **{key: value for key, value in given.items() if value is not None}}
        try:
            route = msgspec.convert(filled, Route, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(phrase("The webhook is not right: {why}", why=str(error))) from None
        route.check(name)
        self._home.ensure()
        self._file.write({**routes, name: route})
        return route

    def address(self, environ: Mapping[str, str]) -> tuple[str, int]:
        """Where the gateway listens for reports."""
        given = load_settings(self._home).settings.platforms.get("webhook", {})
        filled = with_dotenv(environ, self._home.env_file)
        host = str(given.get("host") or filled.get("WEBHOOK_HOST") or _HOST)
        port = str(given.get("port") or filled.get("WEBHOOK_PORT") or _PORT)
        return (_HOST if host == "0.0.0.0" else host), int(port) if port.isdigit() else _PORT  # noqa: S104 - compared

    def remove(self, name: str) -> None:
        """Forget one. Raises NotFoundError."""
        self.find(name)
        routes = self.routes()
        del routes[name]
        self._file.write(routes)


def mac(key: bytes, data: bytes) -> str:
    """HMAC-SHA256 in hex."""
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def reported_to(name: str, route: Route, body: bytes, now: float) -> tuple[str, dict[str, str]]:
    """The path and the headers of a report, as a program of one's own sends them."""
    key, moment = route.secret.encode(), str(int(now))
    proof = {
        Scheme.GITHUB: ("X-Hub-Signature-256", f"sha256={mac(key, body)}"),
        Scheme.GITLAB: ("X-Gitlab-Token", route.secret),
        Scheme.V1: ("X-Webhook-Signature", mac(key, body)),
    }.get(route.scheme, (SIGNATURE, f"t={moment},v1={mac(key, moment.encode() + b'.' + body)}"))
    return f"/webhooks/{name}", {"Content-Type": "application/json", proof[0]: proof[1]}


def shown(name: str, route: Route) -> dict[str, object]:
    """A route without its secret."""
    fields: dict[str, object] = msgspec.to_builtins(structs.replace(route, secret=""))
    del fields["secret"]
    return {"name": name, **fields}


async def read_later(subscriptions: Subscriptions) -> Routes:
    """`read`, beside the event loop."""
    return await asyncio.to_thread(subscriptions.read)


def filters_of(given: Sequence[str]) -> dict[str, list[str]]:
    """Filters as they are typed: `PATH=VALUE`, several of one path for several values. Raises UsageError."""
    found: dict[str, list[str]] = {}
    for one in given:
        path, equals, value = one.partition("=")
        if not path or not equals:
            raise UsageError(phrase("{given!r} is no filter.", given=one[:80]), phrase("Write it as PATH=VALUE."))
        found.setdefault(path, []).append(value)
    return found
