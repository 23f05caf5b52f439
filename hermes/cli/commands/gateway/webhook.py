"""`hermes webhook`: what other programs may report, and what is done with it."""

import argparse
import http.client
import os
import sys
import time
from pathlib import Path

from hermes.admin.webhooks import WebhookAdmin, parse_filters, route_without_secret, sign_report
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.cli.output import print_json
from hermes.config.environment import process_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import phrase, say
from hermes.util.text import escaped, inert

_SECONDS = 30.0
_MOST = 1_000_000


def run(arguments: list[str]) -> int:
    """Parse and run one of the verbs."""
    given = _parser().read(arguments)
    try:
        home = locate_home(process_environment())
        home.check()
        return _done(WebhookAdmin(home), given)
    except HermesError as error:
        return failed(error)


def _parser() -> Parser:
    made = Parser(
        prog="hermes webhook",
        description=say(
            "What other programs may report to the gateway's webhooks, beside the routes in config.yaml. The gateway "
            "sees a change at once."
        ),
        epilog='example: hermes webhook add ci --prompt "The build {build.id} failed." --deliver telegram:42',
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    told = {
        "list": say("all that were added (also without a verb)"),
        "add": say("add one; its secret is shown once"),
        "remove": say("forget one"),
        "test": say("report something to one, as a program would"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in told.items()}
    for verb, parser in parsers.items():
        if verb != "list":
            parser.add_argument("name", help=say("its name, which is the end of its address"))
        parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    parsers["test"].add_argument("--payload", metavar="FILE", help=say("a file of JSON to report; - is standard input"))
    _wishes(parsers["add"])
    return made


def _wishes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--prompt", help=say("what the agent is to do; {a.b.c} names a field of the report, {payload} is all of it"))
    add("--secret", help=say("what both sides know; a fresh one without"))
    add("--scheme", choices=("auto", "github", "gitlab", "v1", "v2"), help=say("how the secret is proved"))
    add("--event", action="append", dest="events", metavar="NAME", help=say("only this kind of event (repeatable)"))
    add(
        "--filter", action="append", dest="filters", metavar="PATH=VALUE", help=say("only with this value (repeatable)")
    )
    add("--skill", action="append", dest="skills", metavar="NAME", help=say("a skill to tell it first (repeatable)"))
    add("--deliver", metavar="TARGET", help=say("log, or PLATFORM:CHAT[:THREAD]"))
    add("--deliver-only", action="store_true", default=None, help=say("pass the prompt on, filled in, without a model"))
    add("--role", choices=("owner", "admin", "user", "guest"), help=say("what the agent may do in its work on it"))
    add("--model", help=say("the model that works on it"))
    add("--per-minute", type=int, metavar="N", help=say("how many reports are taken in a minute"))


_FIELDS = ("prompt", "secret", "scheme", "events", "skills", "deliver", "deliver_only", "role", "model", "per_minute")


def _done(desk: WebhookAdmin, given: argparse.Namespace) -> int:
    match given.verb:
        case "add":
            return _added(desk, given)
        case "remove":
            desk.remove_route(given.name)
            _show(given, {"removed": given.name}, say("Removed."))
        case "test":
            return _tested(desk, given)
        case _:
            rows = [route_without_secret(name, route) for name, route in desk.list_routes().items()]
            lines = [f"{row['name']}  {row['role']}  -> {row['deliver']}" for row in rows]
            if getattr(given, "as_json", False):
                print_json(rows)
            else:
                print("\n".join(map(escaped, lines)) or say("No webhooks were added."))
    return 0


def _added(desk: WebhookAdmin, given: argparse.Namespace) -> int:
    wishes = {name: getattr(given, name) for name in _FIELDS}
    filters = parse_filters(given.filters or ())
    route = desk.add_route(given.name, wishes | ({"filters": filters} if filters else {}))
    host, port = desk.listen_address(process_environment())
    address = f"http://{host}:{port}/webhooks/{given.name}"
    row = route_without_secret(given.name, route) | {"address": address, "secret": route.secret}
    _show(given, row, say("Address: {address}\nSecret (shown once): {secret}", address=address, secret=route.secret))
    return 0


def _tested(desk: WebhookAdmin, given: argparse.Namespace) -> int:
    """Report something, signed as a program of one's own would; what the gateway answered."""
    body, route = _payload(given.payload), desk.find_route(given.name)
    host, port = desk.listen_address(process_environment())
    path, headers = sign_report(given.name, route, body, time.time())
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        connection.request("POST", path, body=body, headers=headers)
        answered = connection.getresponse()
        status, text = answered.status, answered.read(_MOST).decode("utf-8", "replace")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            phrase("Nothing answers at {host}:{port}: {why}.", host=host, port=port, why=reason),
            phrase("Start the gateway with webhooks set up: docs/webhooks.md."),
        ) from None
    finally:
        connection.close()
    _show(given, {"status": status, "answer": text}, f"{status} {inert(text)}")
    return 0 if status in (200, 202) else 1


def _payload(name: str | None) -> bytes:
    if name is None:
        return b'{"test": true}'
    try:
        return sys.stdin.buffer.read(_MOST) if name == "-" else Path(os.path.expanduser(name)).read_bytes()
    except OSError as error:
        raise UsageError(phrase("{file} cannot be read: {why}.", file=name, why=error.strerror)) from None


def _show(given: argparse.Namespace, value: object, line: str) -> None:
    if given.as_json:
        print_json(value)
    else:
        print("\n".join(escaped(one) for one in line.splitlines()))
