"""Define webhook routes, and administer those that were added by the CLI verb."""

import asyncio
import hashlib
import hmac
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType, structs

from hermes.config.chat_targets import TargetBook
from hermes.config.environment import fill_variables, merge_dotenv
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.core.encoding import Plain, to_json, to_plain
from hermes.core.errors import ConfigError, NotFoundError, UsageError
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name
from hermes.util.atomic_write import write_atomic

MIN_SECRET_LENGTH = 16
MAX_ROUTES = 500
_ROUTE_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,63}", re.ASCII)
_ROUTES_FILE = "webhooks.json"
_DEFAULT_HOST, _DEFAULT_PORT = "127.0.0.1", 8644
LOG, GITHUB_COMMENT = "log", "github_comment"
"""What an answer can be delivered to beside targets."""
SIGNATURE_HEADER = "X-Webhook-Signature-V2"


class SignatureScheme(StrEnum):
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


class WebhookRoute(KeyHolder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How reports to one address are handled (`platforms.webhook.routes.NAME`)."""

    secret: str
    """What both sides know; 16 characters at least."""
    prompt: str = "Something was reported: {payload}"
    """What the agent is told to do. `{a.b.c}` names a field of what came; `{payload}` is all of it."""
    scheme: SignatureScheme = SignatureScheme.AUTO
    """How the secret is proved: `auto`, `github`, `gitlab`, `v1`, `v2`."""
    events: tuple[str, ...] = ()
    """Kinds of events that are looked at; empty: all."""
    filters: Mapping[str, str | int | bool | tuple[str | int | bool, ...]] = {}
    """Fields that must have a value, or one of several: `{action: [opened, reopened]}`."""
    skills: tuple[str, ...] = ()
    """Skills that the agent is told first."""
    deliver: str = "log"
    """Where the answer goes: `log`, `github_comment` (on the issue or pull request that was reported), or a target as
    of `hermes send`: `PLATFORM:CHAT[:THREAD]`, `PLATFORM`, `home`, `all`, or a person."""
    deliver_only: bool = False
    """Whether the prompt itself is delivered, filled in, without a model."""
    role: str = "user"
    """What the agent may do in its work on it: `owner`, `admin`, `user`, `guest`."""
    toolsets: tuple[str, ...] | UnsetType = UNSET
    """The tool sets that the agent has in its work on it, of those that its role may use; empty: all of these."""
    cwd: str | UnsetType = UNSET
    """The folder in which it works; empty: that of the role."""
    model: str = ""
    """The model that works on it; empty: the usual one."""
    per_minute: Annotated[int, Meta(ge=1, le=10_000)] = 30
    """How many reports are taken in a minute."""

    def check_route(self, name: str) -> None:
        """Raise ConfigError for settings that cannot be used."""
        if not _ROUTE_NAME.fullmatch(name):
            raise ConfigError(N_("The webhook {name!r} needs a name of letters, digits, _ and -.", name=name[:80]))
        if len(self.secret) < MIN_SECRET_LENGTH or not self.secret.isascii():
            raise ConfigError(
                N_("The secret of the webhook {name!r} can be guessed.", name=name),
                N_("Make one of {n} characters of ASCII at least: openssl rand -hex 32", n=MIN_SECRET_LENGTH),
            )
        if self.role not in ("owner", "admin", "user", "guest"):
            raise ConfigError(N_("The webhook {name!r} has an unknown role.", name=name))
        if not self.deliver:
            raise ConfigError(
                N_("The webhook {name!r} delivers to nowhere.", name=name),
                N_("`deliver` is `log`, `github_comment`, or a target such as PLATFORM:CHAT."),
            )
        if self.deliver == GITHUB_COMMENT and self.scheme is not SignatureScheme.GITHUB:
            raise ConfigError(
                N_("The webhook {name!r} comments on GitHub, so its reports must be signed by GitHub.", name=name),
                N_("Set its scheme to `github`."),
            )
        if self.folder and not os.path.isdir(self.folder):
            raise ConfigError(
                N_("The folder {folder} of the webhook {name!r} does not exist.", folder=self.folder, name=name)
            )

    @property
    def folder(self) -> str:
        """The absolute path of the folder in which the agent works on a report; empty for that of its role."""
        return os.path.abspath(os.path.expanduser(self.cwd)) if isinstance(self.cwd, str) and self.cwd else ""


WebhookRoutes = dict[str, WebhookRoute]


class WebhookRouteFile:
    """The routes that were added by the verb, in a file of the home that only the user can read."""

    def __init__(self, home: HermesHome) -> None:
        self.file: Path = home.root / _ROUTES_FILE
        self._file_version: tuple[int, int] | None = None
        self._routes: WebhookRoutes = {}

    def read_routes(self) -> WebhookRoutes:
        """Return all routes; read again when the file has changed. Raises ConfigError for a damaged file."""
        try:
            found = os.stat(self.file)
        except FileNotFoundError:
            self._file_version, self._routes = None, {}
            return {}
        if self._file_version == (found.st_mtime_ns, found.st_ino):
            return self._routes
        try:
            self._routes = msgspec.json.decode(self.file.read_bytes(), type=WebhookRoutes)
        except (msgspec.MsgspecError, OSError, RecursionError) as error:
            raise ConfigError(
                N_("{file} cannot be read: {why}", file=str(self.file), why=str(error)),
                N_("`hermes webhook` writes it; delete it to start over."),
            ) from None
        self._file_version = found.st_mtime_ns, found.st_ino
        return self._routes

    def write_routes(self, routes: WebhookRoutes) -> None:
        """Replace all routes."""
        write_atomic(self.file, msgspec.json.format(to_json(routes)) + b"\n", mode=0o600)


class WebhookAdmin:
    """Operations on the routes that were added."""

    def __init__(self, home: HermesHome) -> None:
        self._route_file = WebhookRouteFile(home)
        self._home = home

    def list_routes(self) -> WebhookRoutes:
        """Return the added routes."""
        return dict(self._route_file.read_routes())

    def list_configured_routes(self, environ: Mapping[str, str]) -> tuple[WebhookRoutes, list[str]]:
        """Return the routes of config.yaml, and a line for each that cannot be used."""
        filled = merge_dotenv(environ, self._home.env_file)
        routes: WebhookRoutes = {}
        wrong: list[str] = []
        for account, given in load_settings(self._home).settings.platforms.items():
            named = given.get("routes")
            if str(given.get("platform") or account) != "webhook" or not isinstance(named, Mapping):
                continue
            for name, fields in named.items():
                where = f"platforms.{account}.routes.{name}"
                try:
                    route = msgspec.convert(fill_variables(fields, filled, where), WebhookRoute, strict=False)
                    route.check_route(str(name))
                    routes[str(name)] = route
                except msgspec.ValidationError as error:
                    wrong.append(f"{where}: {error}")
                except ConfigError as error:
                    wrong.append(str(error))
        return routes, wrong

    def is_served(self) -> bool:
        """Return whether an account takes reports when the gateway runs."""
        return any(
            str(given.get("platform") or account) == "webhook" and given.get("enabled", True)
            for account, given in load_settings(self._home).settings.platforms.items()
        )

    def find_wrong_targets(self, environ: Mapping[str, str], book: TargetBook) -> list[str]:
        """Return a line for each route of config.yaml whose answer would reach nobody."""
        found = []
        for name, route in self.list_configured_routes(environ)[0].items():
            try:
                book.check_target(route.deliver, words=(LOG, GITHUB_COMMENT))
            except (NotFoundError, UsageError) as error:
                found.append(N_("The webhook {name!r} cannot deliver: {why}", name=name, why=str(error)))
        return found

    def find_route(self, name: str, environ: Mapping[str, str]) -> WebhookRoute:
        """Return a route by its name, one of config.yaml before one that was added. Raises NotFoundError."""
        configured, wrong = self.list_configured_routes(environ)
        found = configured.get(name) or self._route_file.read_routes().get(name)
        if found is None:
            known = [*configured, *self._route_file.read_routes()]
            hint = suggest_name(name, known) or next((line for line in wrong if name in line), "")
            raise NotFoundError(
                N_("There is no webhook {name!r}.", name=name[:80]), hint or N_("`hermes webhook list` shows them.")
            )
        return found

    def add_route(self, name: str, given: Mapping[str, object], environ: Mapping[str, str]) -> WebhookRoute:
        """Add a route, with a fresh secret where none is given. Raises UsageError and ConfigError."""
        routes = self.list_routes()
        if name in self.list_configured_routes(environ)[0]:
            raise UsageError(N_("The webhook {name!r} stands in config.yaml.", name=name[:80]))
        if name in routes:
            raise UsageError(N_("There is a webhook {name!r} already.", name=name[:80]))
        if len(routes) >= MAX_ROUTES:
            raise UsageError(N_("There are {n} webhooks already.", n=MAX_ROUTES))
        filled = {"secret": secrets.token_hex(32), **{key: value for key, value in given.items() if value is not None}}
        try:
            route = msgspec.convert(filled, WebhookRoute, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(N_("The webhook is not right: {why}", why=str(error))) from None
        route.check_route(name)
        self._home.ensure_exists()
        self._route_file.write_routes({**routes, name: route})
        return route

    def listen_address(self, environ: Mapping[str, str]) -> tuple[str, int]:
        """Return the host and port where the gateway listens for reports."""
        given = load_settings(self._home).settings.platforms.get("webhook", {})
        filled = merge_dotenv(environ, self._home.env_file)
        host = str(given.get("host") or filled.get("WEBHOOK_HOST") or _DEFAULT_HOST)
        port = str(given.get("port") or filled.get("WEBHOOK_PORT") or _DEFAULT_PORT)
        return (_DEFAULT_HOST if host == "0.0.0.0" else host), int(port) if port.isdigit() else _DEFAULT_PORT  # noqa: S104 - compared

    def remove_route(self, name: str) -> None:
        """Remove an added route. Raises NotFoundError."""
        routes = self.list_routes()
        if name not in routes:
            raise NotFoundError(
                N_("There is no webhook {name!r} that was added.", name=name[:80]),
                suggest_name(name, routes) or N_("Routes of config.yaml are removed there."),
            )
        del routes[name]
        self._route_file.write_routes(routes)


def compute_mac(key: bytes, data: bytes) -> str:
    """Return the HMAC-SHA256 in hex."""
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def sign_report(name: str, route: WebhookRoute, body: bytes, now: float) -> tuple[str, dict[str, str]]:
    """Return the path and the signed headers of a report, as an external program sends them."""
    key, moment = route.secret.encode(), str(int(now))
    proof = {
        SignatureScheme.GITHUB: ("X-Hub-Signature-256", f"sha256={compute_mac(key, body)}"),
        SignatureScheme.GITLAB: ("X-Gitlab-Token", route.secret),
        SignatureScheme.V1: ("X-Webhook-Signature", compute_mac(key, body)),
    }.get(route.scheme, (SIGNATURE_HEADER, f"t={moment},v1={compute_mac(key, moment.encode() + b'.' + body)}"))
    return f"/webhooks/{name}", {"Content-Type": "application/json", proof[0]: proof[1]}


def format_curl_command(address: str, route: WebhookRoute) -> str:
    """Return a command for a shell that reports something which the route takes, signed as its scheme wants it."""
    body, key = shlex.quote(to_json(_build_sample(route)).decode()), shlex.quote(route.secret)

    def mac(text: str) -> str:
        return f"$(printf %s {text} | openssl dgst -sha256 -hmac {key} -r | cut -c1-64)"

    at = '"$at."' + body
    proof = {
        SignatureScheme.GITHUB: f'"X-Hub-Signature-256: sha256={mac(body)}"',
        SignatureScheme.V1: f'"X-Webhook-Signature: {mac(body)}"',
        SignatureScheme.V2: f'"{SIGNATURE_HEADER}: t=$at,v1={mac(at)}"',
    }.get(route.scheme, shlex.quote(f"X-Gitlab-Token: {route.secret}"))
    event = f" -H {shlex.quote(f'X-GitHub-Event: {route.events[0]}')}" if route.events else ""
    lead = "at=$(date +%s); " if route.scheme is SignatureScheme.V2 else ""
    return f"{lead}curl -H 'Content-Type: application/json' -H {proof}{event} -d {body} {shlex.quote(address)}"


def _build_sample(route: WebhookRoute) -> Plain:
    """Return the smallest report that passes a route's filters."""
    sample: Plain = {}
    for path, wanted in route.filters.items():
        *above, last = path.split(".")
        at = sample
        for name in above:
            below = at.setdefault(name, {})
            if not isinstance(below, dict):
                break
            at = below
        else:
            at[last] = wanted[0] if isinstance(wanted, tuple) and wanted else wanted
    return sample or {"test": True}


def route_without_secret(name: str, route: WebhookRoute) -> dict[str, object]:
    """Return a route without its secret."""
    fields: dict[str, object] = to_plain(structs.replace(route, secret=""))
    del fields["secret"]
    return {"name": name, **fields}


async def read_routes_in_thread(subscriptions: WebhookRouteFile) -> WebhookRoutes:
    """Read the routes in a thread."""
    return await asyncio.to_thread(subscriptions.read_routes)


def parse_filters(given: Sequence[str]) -> dict[str, list[str]]:
    """Parse typed filters: `PATH=VALUE`, several of one path for several values. Raises UsageError."""
    found: dict[str, list[str]] = {}
    for one in given:
        path, equals, value = one.partition("=")
        if not path or not equals:
            raise UsageError(N_("{given!r} is not a filter.", given=one[:80]), N_("Write it as PATH=VALUE."))
        found.setdefault(path, []).append(value)
    return found
