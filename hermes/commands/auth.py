"""`hermes auth`: manage the keys of model providers. A key is never taken as an argument and never shown."""

import argparse
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from hermes.commands.verb import JSON_OPTION, AdminVerb, VerbCall, VerbResult, argument
from hermes.config.auth_file import AuthEntry
from hermes.core.encoding import Plain
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.markup.cells import pad_text
from hermes.util.text import strip_control_characters

if TYPE_CHECKING:
    from hermes.admin.auth import KeyAdmin

_SAFE_KEY_HINT = N_(
    "Leave the key out and Hermes asks for it, or use --key-stdin, --env, --command or --keyring. "
    "Take the key that was typed for known, and replace it."
)


@asynccontextmanager
async def _open_keys(call: VerbCall) -> "AsyncIterator[KeyAdmin]":
    from hermes.admin.auth import open_key_admin

    if call.args.verb == "add" and (call.args.typed or call.args.typed_option is not None):
        raise UsageError(
            ("A key on the command line would show up in the shell's history and in the list of processes."),
            _SAFE_KEY_HINT,
        )
    async with open_key_admin(call.environ) as admin:
        yield admin


AUTH = AdminVerb(
    "auth",
    _open_keys,
    description="List, add, remove and reset the keys of model providers. Several keys of one provider are a pool: "
    "one that is at its limit rests, and another is taken.",
    example="hermes auth add openrouter --command 'op read op://vault/openrouter/key'",
)


@AUTH.admin_action("list", "every key, its source and its state (also without a verb)", JSON_OPTION)
async def list_keys(auth: "KeyAdmin", call: VerbCall) -> VerbResult:
    """List every key with its state, by provider."""
    del call
    rows = await auth.list_keys()
    lines = (
        []
        if rows
        else [tr("There are no keys yet. Add one: hermes auth add openrouter. Or sign in: hermes auth login openai.")]
    )
    before = ""
    for row in rows:
        if row["provider"] != before:
            before = str(row["provider"])
            many = sum(other["provider"] == before for other in rows) > 1
            lines.append(f"{before} ({row['strategy']})" if many else before)
        lines.append(_format_key(row))
    return VerbResult(rows, lines)


@AUTH.admin_action(
    "add",
    "add a key, or the place where one is found",
    argument("provider", help="such as openrouter; custom:HOST for a server of your own"),
    argument("--label", default="", metavar="L", help="what to call it"),
    argument("--organisation", default="", metavar="O", help="the account it belongs to; limits are shared there"),
    argument("--env", metavar="NAME", exclusive="source", help="a variable that holds it"),
    argument(
        "--command",
        metavar="COMMAND",
        exclusive="source",
        help="a program that prints it; run without a shell when needed",
    ),
    argument("--keyring", metavar="SERVICE/USER", exclusive="source", help="an entry of the desktop's keyring"),
    argument("--key-stdin", action="store_true", exclusive="source", help="read it from standard input"),
    argument("typed", nargs="*", help=argparse.SUPPRESS),
    argument("--api-key", "--key", dest="typed_option", help=argparse.SUPPRESS),
    description="Without an option the key is asked for.",
)
async def add_key(auth: "KeyAdmin", call: VerbCall) -> VerbResult:
    """Keep a key, or where it is found."""
    name = auth.resolve_provider(call.args.provider)  # said before the key is asked for
    entry = AuthEntry(id="", kind="key", label=call.args.label, organisation=call.args.organisation)
    added = auth.add_key(name, msgspec.structs.replace(entry, **_read_key_source(call, name)))
    ending = tr(", ends in {ending}", ending=added["ending"]) if added["ending"] else ""
    label, provider = strip_control_characters(str(added["label"])), added["provider"]
    line = tr("Added {label} to {provider}{ending}.", label=label, provider=provider, ending=ending)
    return VerbResult(lines=[line])


@AUTH.admin_action(
    "remove",
    "forget a key that was added",
    argument("provider"),
    argument("key", metavar="LABEL-OR-NUMBER", help="as `hermes auth list` shows it"),
)
async def remove_key(auth: "KeyAdmin", call: VerbCall) -> VerbResult:
    """Forget a key that was added."""
    row = await auth.remove_key(call.args.provider, call.args.key)
    label = strip_control_characters(str(row["label"]))
    return VerbResult(lines=[tr("Removed {label} of {provider}.", label=label, provider=row["provider"])])


@AUTH.admin_action(
    "reset",
    "retry resting or refused keys at once",
    argument("provider", nargs="?", default="", help="empty: all"),
    argument("key", nargs="?", default="", metavar="LABEL-OR-NUMBER", help="empty: all of the provider"),
)
async def reset_cooldowns(auth: "KeyAdmin", call: VerbCall) -> VerbResult:
    """Let keys that rest, or were refused, be tried again."""
    ended = await auth.reset_cooldowns(call.args.provider, call.args.key)
    said = tr_plural("{n} cooldown ended.", "{n} cooldowns ended.", ended)
    return VerbResult(lines=[said if ended else tr("No key was resting.")])


@AUTH.action(
    "login",
    "sign in with a subscription: openai (ChatGPT), xai, minimax, or another one of sign-in.md",
    argument("vendor", help="openai, xai, minimax, minimax-cn, nous, github-copilot, or a name of your own"),
    argument("--device", action="store_true", help="with a code that you type into a browser on any machine"),
    argument("--no-browser", action="store_true", help="only show the address to open"),
    argument("--yes", "-y", action="store_true", help="do not ask after the vendor's terms were named"),
    JSON_OPTION,
    description="In a browser on this machine; over ssh, paste the address that it ends at, or use --device.",
)
async def sign_in_to_vendor(call: VerbCall) -> VerbResult:
    """Sign in to a vendor, so that its provider can be used without a key."""
    from hermes.admin.sign_in import plan_sign_in, sign_in
    from hermes.commands.sign_in_prompts import TerminalSignIn, describe_fallback

    plan = plan_sign_in(call.environ, call.args.vendor, by_device=call.args.device)
    vendor = plan.vendor
    if vendor.notice or vendor.terms:
        lines = [localize(vendor.notice)] if vendor.notice else []
        call.show([*lines, *([tr("Its terms: {page}", page=vendor.terms)] if vendor.terms else [])])
        if not call.args.yes:
            await call.require_yes(tr("Sign in to {title}?", title=vendor.title))
    done = await sign_in(call.environ, plan, TerminalSignIn(call, opens_browser=not call.args.no_browser))
    provider = vendor.provider
    use = f"hermes --provider {provider}" + ("" if plan.default_model else " -m MODEL")
    said = tr("You are signed in to {label}. Use it: {command}", label=done.label, command=use)
    lines = [said, *([describe_fallback(done.notice)] if done.notice else [])]
    return VerbResult({"vendor": plan.name, "provider": provider, "label": done.label}, lines)


@AUTH.action(
    "import",
    "take over the login of another program, which ends there: codex",
    argument("vendor", help="codex, or a name of your own"),
    argument("--yes", "-y", action="store_true", help="do not ask after it was said what ends"),
    JSON_OPTION,
    description="That program's file is read once and never changed.",
)
async def import_login(call: VerbCall) -> VerbResult:
    """Take over another program's login."""
    from hermes.admin.sign_in_import import import_sign_in, plan_import
    from hermes.commands.sign_in_prompts import describe_fallback

    wanted = plan_import(call.environ, call.args.vendor)
    vendor, program = wanted.plan.vendor, wanted.program
    call.show(
        [
            tr("This reads the login of {program} in {file}.", program=program, file=wanted.file),
            tr(
                "Its refresh token is good for one use, and that is made here, now: {program} is signed out by it. To "
                "use both, sign in to {program} again afterwards; or leave it its login, and use `hermes auth login "
                "{name}`.",
                program=program,
                name=wanted.plan.name,
            ),
            *([localize(vendor.notice)] if vendor.notice else []),
            *([tr("Its terms: {page}", page=vendor.terms)] if vendor.terms else []),
        ]
    )
    if not call.args.yes:
        await call.require_yes(tr("Take over the login of {program}, and end it there?", program=program))
    done = await import_sign_in(call.environ, wanted)
    said = tr("The login of {program} is now {label} of Hermes.", program=program, label=done.label)
    lines = [said, *([describe_fallback(done.notice)] if done.notice else [])]
    return VerbResult({"vendor": wanted.plan.name, "provider": vendor.provider, "label": done.label}, lines)


@AUTH.action("logout", "delete the tokens of a sign-in", argument("vendor", help="as in `hermes auth login`"))
async def sign_out_of_vendor(call: VerbCall) -> VerbResult:
    """Delete a vendor's tokens."""
    from hermes.admin.sign_in import sign_out

    name = call.args.vendor
    done = await sign_out(call.environ, name)
    said = tr("The tokens of {name} are deleted.", name=name) if done else tr("{name} has no tokens.", name=name)
    return VerbResult({"name": name, "deleted": done}, [said])


def _read_key_source(call: VerbCall, name: str) -> dict[str, str]:
    """Return the fields of the entry that say where the key is."""
    args = call.args
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
    return {"key": call.ask_secret(tr("Key for {name} (it is not shown):", name=name) + " ")}


def _format_key(row: Plain) -> str:
    ending = f"…{row['ending']}" if row["ending"] else ""
    uses = tr_plural("{n} use", "{n} uses", number) if isinstance(number := row["uses"], int) and number else ""
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
    dead = tr("dead ({reason}{only})", reason=localize(str(row["reason"])), only=only)
    return dead if row["state"] == "dead" else tr("ready")
