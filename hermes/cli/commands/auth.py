"""`hermes auth`: manage the keys of model providers. A key is never taken as an argument and never shown."""

import argparse
import asyncio
import getpass
import sys
import time

import msgspec

from hermes.admin.auth import KeyAdmin, open_key_admin
from hermes.cli.output import report_failure
from hermes.cli.parser import CommandParser
from hermes.config.auth_file import AuthEntry
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.markup.cells import pad_text
from hermes.util.text import strip_control_characters

Plain = dict[str, object]
_SAFE_KEY_HINT = N_(
    "Leave the key out and Hermes asks for it, or use --key-stdin, --env, --command or --keyring. "
    "Take the key that was typed for known, and replace it."
)


def run(arguments: list[str]) -> int:
    """Parse the arguments and run one of the verbs."""
    args = _build_parser().parse_arguments(arguments)
    try:
        return asyncio.run(_run_verb(args))
    except HermesError as error:
        return report_failure(error)


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes auth",
        description="List, add, remove and reset the keys of model providers. Several keys of one provider are a pool: "
        "one that is at its limit rests, and another is taken.",
        epilog="example: hermes auth add openrouter --command 'op read op://vault/openrouter/key'",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    listing = verbs.add_parser("list", help="every key: where it is from and how it stands (also without a verb)")
    listing.add_argument("--json", action="store_true", help="print JSON")
    add = verbs.add_parser(
        "add", help="keep a key, or where to find one", description="Without an option the key is asked for."
    )
    add.add_argument("provider", help="such as openrouter; custom:HOST for a server of your own")
    add.add_argument("--label", default="", metavar="L", help="what to call it")
    add.add_argument(
        "--organisation", default="", metavar="O", help="the account it belongs to; limits are shared there"
    )
    ways = add.add_mutually_exclusive_group()
    ways.add_argument("--env", metavar="NAME", help="a variable that holds it")
    ways.add_argument("--command", metavar="COMMAND", help="a program that prints it; run without a shell when needed")
    ways.add_argument("--keyring", metavar="SERVICE/USER", help="an entry of the desktop's keyring")
    ways.add_argument("--key-stdin", action="store_true", help="read it from standard input")
    add.add_argument("typed", nargs="*", help=argparse.SUPPRESS)
    add.add_argument("--api-key", "--key", dest="typed_option", help=argparse.SUPPRESS)
    remove = verbs.add_parser("remove", help="forget a key that was added")
    remove.add_argument("provider")
    remove.add_argument("key", metavar="LABEL-OR-NUMBER", help="as `hermes auth list` shows it")
    reset = verbs.add_parser("reset", help="have keys tried again at once that rest or were refused")
    reset.add_argument("provider", nargs="?", default="", help="empty: all")
    reset.add_argument("key", nargs="?", default="", metavar="LABEL-OR-NUMBER", help="empty: all of the provider")
    return made


async def _run_verb(args: argparse.Namespace) -> int:
    if args.verb == "add" and (args.typed or args.typed_option is not None):
        raise UsageError(
            "A key on the command line would stand in the shell's history and in the list of processes.", _SAFE_KEY_HINT
        )
    async with open_key_admin(copy_environment()) as auth:
        match args.verb:
            case None | "list":
                _print_keys(await auth.list_keys(), as_json=getattr(args, "json", False))
            case "add":
                _add_key(auth, args)
            case "remove":
                row = await auth.remove_key(args.provider, args.key)
                print(
                    tr(
                        "Removed {label} of {provider}.",
                        label=strip_control_characters(str(row["label"])),
                        provider=row["provider"],
                    )
                )
            case _:
                ended = await auth.reset_cooldowns(args.provider, args.key)
                said = tr_plural("{n} cooldown ended.", "{n} cooldowns ended.", ended)
                print(said if ended else tr("No key was resting."))
    return 0


def _add_key(auth: KeyAdmin, args: argparse.Namespace) -> None:
    name = auth.resolve_provider(args.provider)  # said before the key is asked for
    entry = AuthEntry(id="", kind="key", label=args.label, organisation=args.organisation)
    added = auth.add_key(name, msgspec.structs.replace(entry, **_read_key_source(args, name)))
    ending = tr(", ends in {ending}", ending=added["ending"]) if added["ending"] else ""
    label, provider = strip_control_characters(str(added["label"])), added["provider"]
    print(tr("Added {label} to {provider}{ending}.", label=label, provider=provider, ending=ending))


def _read_key_source(args: argparse.Namespace, name: str) -> dict[str, str]:
    """Return the fields of the entry that say where the key is."""
    if args.env is not None:
        return {"kind": "env", "name": args.env}
    if args.command is not None:
        return {"kind": "command", "command": args.command}
    if args.keyring is not None:
        service, _, user = args.keyring.rpartition("/")
        return {"kind": "keyring", "service": service, "user": user}
    if args.key_stdin:
        return {"key": sys.stdin.readline().strip()}
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal to ask for the key.", "Give it on standard input with --key-stdin.")
    try:
        return {"key": getpass.getpass(tr("Key for {name} (it is not shown):", name=name) + " ").strip()}
    except EOFError:
        return {"key": ""}


def _print_keys(rows: list[Plain], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n")
        return
    if not rows:
        print(tr("There are no keys yet. Add one: hermes auth add openrouter"))
    before = ""
    for row in rows:
        if row["provider"] != before:
            before = str(row["provider"])
            many = sum(other["provider"] == before for other in rows) > 1
            print(f"{before} ({row['strategy']})" if many else before)
        print(_format_key(row))


def _format_key(row: Plain) -> str:
    ending = f"…{row['ending']}" if row["ending"] else ""
    uses = tr("{uses} uses", uses=row["uses"]) if row["uses"] else ""
    label, source = strip_control_characters(str(row["label"])), localize(str(row["source"]))
    key = f"{row['number']:>3}  {pad_text(label, 24)} {pad_text(source, 28)}"
    columns = f"{key} {ending:<6} {pad_text(_format_state(row), 10)} {uses}"
    return columns.rstrip()


def _format_state(row: Plain) -> str:
    """Describe in words whether the key can be used."""
    only = tr(", {model} only", model=row["model"]) if row["model"] else ""
    if row["state"] == "cooling":
        moment = time.localtime(float(str(row["until"])))
        form = "%H:%M" if moment[:3] == time.localtime()[:3] else "%Y-%m-%d %H:%M"
        return tr(
            "cooling until {time} ({reason}{only})",
            time=time.strftime(form, moment),
            reason=row["reason"],
            only=only,
        )
    dead = tr("dead ({reason}{only})", reason=row["reason"], only=only)
    return dead if row["state"] == "dead" else tr("ready")
