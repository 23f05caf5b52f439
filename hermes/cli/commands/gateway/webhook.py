"""`hermes webhook`: manage the webhooks by which other programs report to the gateway."""

import argparse
import http.client
import os
import sys
import time
from pathlib import Path

from hermes.admin.webhooks import WebhookAdmin, parse_filters, route_without_secret, sign_report
from hermes.cli.output import print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_unseen_characters, strip_control_characters

_REQUEST_SECONDS = 30.0
_MAX_BYTES = 1_000_000


def run(arguments: list[str]) -> int:
    """Parse the arguments and run one of the verbs."""
    args = _build_parser().parse_arguments(arguments)
    try:
        home = locate_home(copy_environment())
        home.check_usable()
        return _run_verb(WebhookAdmin(home), args)
    except HermesError as error:
        return report_failure(error)


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes webhook",
        description=tr(
            "What other programs may report to the gateway's webhooks, beside the routes in config.yaml. The gateway "
            "sees a change at once."
        ),
        epilog='example: hermes webhook add ci --prompt "The build {build.id} failed." --deliver telegram:42',
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    verb_help = {
        "list": tr("all that were added (also without a verb)"),
        "add": tr("add one; its secret is shown once"),
        "remove": tr("forget one"),
        "test": tr("report something to one, as a program would"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in verb_help.items()}
    for verb, parser in parsers.items():
        if verb != "list":
            parser.add_argument("name", help=tr("its name, which is the end of its address"))
        parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    parsers["test"].add_argument("--payload", metavar="FILE", help=tr("a file of JSON to report; - is standard input"))
    _add_route_options(parsers["add"])
    return made


def _add_route_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--prompt", help=tr("what the agent is to do; {a.b.c} names a field of the report, {payload} is all of it"))
    add("--secret", help=tr("what both sides know; a fresh one without"))
    add("--scheme", choices=("auto", "github", "gitlab", "v1", "v2"), help=tr("how the secret is proved"))
    add("--event", action="append", dest="events", metavar="NAME", help=tr("only this kind of event (repeatable)"))
    add("--filter", action="append", dest="filters", metavar="PATH=VALUE", help=tr("only with this value (repeatable)"))
    add("--skill", action="append", dest="skills", metavar="NAME", help=tr("a skill to tell it first (repeatable)"))
    add("--deliver", metavar="TARGET", help=tr("log, or PLATFORM:CHAT[:THREAD]"))
    add("--deliver-only", action="store_true", default=None, help=tr("pass the prompt on, filled in, without a model"))
    add("--role", choices=("owner", "admin", "user", "guest"), help=tr("what the agent may do in its work on it"))
    add("--model", help=tr("the model that works on it"))
    add("--per-minute", type=int, metavar="N", help=tr("how many reports are taken in a minute"))


_ROUTE_FIELDS = (
    "prompt",
    "secret",
    "scheme",
    "events",
    "skills",
    "deliver",
    "deliver_only",
    "role",
    "model",
    "per_minute",
)


def _run_verb(admin: WebhookAdmin, args: argparse.Namespace) -> int:
    match args.verb:
        case "add":
            return _add_route(admin, args)
        case "remove":
            admin.remove_route(args.name)
            _print_result(args, {"removed": args.name}, tr("Removed."))
        case "test":
            return _test_route(admin, args)
        case _:
            rows = [route_without_secret(name, route) for name, route in admin.list_routes().items()]
            lines = [f"{row['name']}  {row['role']}  -> {row['deliver']}" for row in rows]
            if getattr(args, "as_json", False):
                print_json(rows)
            else:
                print("\n".join(map(escape_unseen_characters, lines)) or tr("No webhooks were added."))
    return 0


def _add_route(admin: WebhookAdmin, args: argparse.Namespace) -> int:
    wishes = {name: getattr(args, name) for name in _ROUTE_FIELDS}
    filters = parse_filters(args.filters or ())
    route = admin.add_route(args.name, wishes | ({"filters": filters} if filters else {}))
    host, port = admin.listen_address(copy_environment())
    address = f"http://{host}:{port}/webhooks/{args.name}"
    row = route_without_secret(args.name, route) | {"address": address, "secret": route.secret}
    _print_result(
        args, row, tr("Address: {address}\nSecret (shown once): {secret}", address=address, secret=route.secret)
    )
    return 0


def _test_route(admin: WebhookAdmin, args: argparse.Namespace) -> int:
    """Send a report, signed as a program of the person's own would sign it, and print the gateway's answer."""
    body, route = _read_payload(args.payload), admin.find_route(args.name)
    host, port = admin.listen_address(copy_environment())
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
            N_("Start the gateway with webhooks set up: docs/webhooks.md."),
        ) from None
    finally:
        connection.close()
    _print_result(args, {"status": status, "answer": text}, f"{status} {strip_control_characters(text)}")
    return 0 if status in (200, 202) else 1


def _read_payload(name: str | None) -> bytes:
    if name is None:
        return b'{"test": true}'
    try:
        return sys.stdin.buffer.read(_MAX_BYTES) if name == "-" else Path(os.path.expanduser(name)).read_bytes()
    except OSError as error:
        raise UsageError(N_("{file} cannot be read: {why}.", file=name, why=error.strerror)) from None


def _print_result(args: argparse.Namespace, value: object, line: str) -> None:
    if args.as_json:
        print_json(value)
    else:
        print("\n".join(escape_unseen_characters(one) for one in line.splitlines()))
