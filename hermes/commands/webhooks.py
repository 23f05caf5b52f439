"""`hermes webhook`: manage the webhooks by which other programs report to the gateway."""

import os
import sys
import time
from pathlib import Path

from hermes.admin.home_services import open_home_services
from hermes.admin.webhooks import (
    GITHUB_COMMENT,
    LOG,
    WebhookAdmin,
    format_curl_command,
    parse_filters,
    route_without_secret,
    sign_report,
)
from hermes.commands.verb import JSON_OPTION, Verb, VerbCall, VerbResult, argument, rows_result
from hermes.config.home import locate_home
from hermes.core.encoding import Plain
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, join_sentences, localize, tr
from hermes.sessions.target_book import load_target_book
from hermes.util.text import escape_unseen_characters, strip_control_characters

_REQUEST_SECONDS = 30.0
_MAX_BYTES = 1_000_000
_NAME = argument("name", help="its name, which is the end of its address")
_ROUTE_OPTIONS = (
    argument("--prompt", help="what the agent is to do; {a.b.c} names a field of the report, {payload} is all of it"),
    argument("--secret", help="what both sides know; a fresh one without"),
    argument("--scheme", choices=("auto", "github", "gitlab", "v1", "v2"), help="how the secret is proved"),
    argument("--event", action="append", dest="events", metavar="NAME", help="only this kind of event (repeatable)"),
    argument(
        "--filter", action="append", dest="filters", metavar="PATH=VALUE", help="only with this value (repeatable)"
    ),
    argument("--skill", action="append", dest="skills", metavar="NAME", help="a skill to tell it first (repeatable)"),
    argument(
        "--deliver",
        metavar="TARGET",
        help="log, github_comment, home, all, PLATFORM[:CHAT[:THREAD]], or a person's name",
    ),
    argument(
        "--deliver-only", action="store_true", default=None, help="pass the prompt on, filled in, without a model"
    ),
    argument("--role", choices=("owner", "admin", "user", "guest"), help="what the agent may do with it"),
    argument(
        "--toolset",
        action="append",
        dest="toolsets",
        metavar="NAME",
        help="only this set of its role's tools (repeatable)",
    ),
    argument("--cwd", metavar="FOLDER", help="the folder that it works in"),
    argument("--model", help="the model that works on it"),
    argument("--per-minute", type=int, metavar="N", help="how many reports are taken in a minute"),
)
WEBHOOK = Verb(
    "webhook",
    description="What other programs may report to the gateway's webhooks. Routes stand in config.yaml, or are "
    "added here; the gateway sees a change at once.",
    example='hermes webhook add ci --prompt "The build {build.id} failed." --deliver telegram:42',
)


def _open_webhooks(call: VerbCall) -> WebhookAdmin:
    home = locate_home(call.environ)
    home.check_usable()
    return WebhookAdmin(home)


@WEBHOOK.action("list", "all of them (also without a verb)", JSON_OPTION)
def list_webhooks(call: VerbCall) -> VerbResult:
    """List the webhooks that were added, without their secrets."""
    admin = _open_webhooks(call)
    configured, wrong = admin.list_configured_routes(call.environ)
    routes = admin.list_routes() | configured
    rows = [
        route_without_secret(name, route) | {"source": "config.yaml" if name in configured else "added"}
        for name, route in routes.items()
    ]
    listed = rows_result(rows, _format_webhook, tr("There are no webhooks."))
    return VerbResult(rows, listed.lines, [escape_unseen_characters(localize(line)) for line in wrong])


@WEBHOOK.action("add", "add one; its secret is shown once", _NAME, JSON_OPTION, *_ROUTE_OPTIONS)
async def add_webhook(call: VerbCall) -> VerbResult:
    """Add a webhook, and show its address and its secret."""
    admin, args = _open_webhooks(call), call.args
    wishes = {one.dest: getattr(args, one.dest) for one in _ROUTE_OPTIONS if one.dest != "filters"}
    filters = parse_filters(args.filters or ())
    if args.cwd:
        wishes["cwd"] = os.path.abspath(os.path.expanduser(args.cwd))  # noqa: ASYNC240 - it reads one variable
    if args.deliver:
        async with open_home_services(call.environ) as services:
            book = await load_target_book(services.store, services.settings.platforms)
        wishes["deliver"] = book.check_target(args.deliver, words=(LOG, GITHUB_COMMENT))
    route = admin.add_route(args.name, wishes | ({"filters": filters} if filters else {}), call.environ)
    host, port = admin.listen_address(call.environ)
    address = f"http://{host}:{port}/webhooks/{args.name}"
    command = format_curl_command(address, route)
    row = route_without_secret(args.name, route) | {"address": address, "secret": route.secret, "try": command}
    said = tr("Address: {address}\nSecret (shown once): {secret}", address=address, secret=route.secret)
    lines = [*said.splitlines(), tr("To try it (the secret is in it):"), f"  {command}"]
    return VerbResult(row, [escape_unseen_characters(line) for line in lines], _list_unserved(admin, call))


def _list_unserved(admin: WebhookAdmin, call: VerbCall) -> list[str]:
    """Return the line that says why nothing answers at the addresses of webhooks, and what changes that."""
    from hermes.sessions.features.cron_deps import is_gateway_running

    runs = is_gateway_running(locate_home(call.environ))
    if not admin.is_served():
        then = tr("`hermes gateway reload` applies it.") if runs else tr("`hermes gateway start` starts the gateway.")
        off = tr("Webhooks are off: `hermes config set platforms.webhook.enabled true` turns them on.")
        return [join_sentences(off, then)]
    return [] if runs else [tr("No gateway runs, so nothing answers there: `hermes gateway start` starts it.")]


@WEBHOOK.action("remove", "forget one", _NAME, JSON_OPTION)
def remove_webhook(call: VerbCall) -> VerbResult:
    """Remove a webhook."""
    _open_webhooks(call).remove_route(call.args.name)
    return VerbResult({"removed": call.args.name}, [tr("Removed.")])


@WEBHOOK.action(
    "test",
    "report something to one, as a program would",
    _NAME,
    JSON_OPTION,
    argument("--payload", metavar="FILE", help="a file of JSON to report; - is standard input"),
)
def send_report(call: VerbCall) -> VerbResult:
    """Send a report, signed as a program of the person's own would sign it, and show the gateway's answer."""
    import http.client

    admin, args = _open_webhooks(call), call.args
    body, route = _read_payload(args.payload), admin.find_route(args.name, call.environ)
    host, port = admin.listen_address(call.environ)
    path, headers = sign_report(args.name, route, body, time.time())
    connection = http.client.HTTPConnection(host, port, timeout=_REQUEST_SECONDS)
    try:
        connection.request("POST", path, body=body, headers=headers)
        answered = connection.getresponse()
        status, text = answered.status, answered.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            N_("Nothing answers at {host}:{port}: {why}.", host=host, port=port, why=reason),
            next(iter(_list_unserved(admin, call)), N_("Start the gateway with webhooks set up: docs/webhooks.md.")),
        ) from None
    finally:
        connection.close()
    lines = f"{status} {strip_control_characters(text)}".splitlines()
    exit_code = 0 if status in (200, 202) else 1
    return VerbResult(
        {"status": status, "answer": text}, [escape_unseen_characters(line) for line in lines], exit_code=exit_code
    )


def _format_webhook(row: Plain) -> str:
    where = f"  {row['cwd']}" if row.get("cwd") else ""
    return escape_unseen_characters(f"{row['name']}  {row['role']}  -> {row['deliver']}  ({row['source']}){where}")


def _read_payload(name: str | None) -> bytes:
    if name is None:
        return b'{"test": true}'
    try:
        return sys.stdin.buffer.read(_MAX_BYTES) if name == "-" else Path(os.path.expanduser(name)).read_bytes()
    except OSError as error:
        raise UsageError(N_("{file} cannot be read: {why}.", file=name, why=error.strerror)) from None
