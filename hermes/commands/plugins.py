"""`hermes plugins`, `/plugins`: list, enable and disable other people's code: hooks, packages and folder plug-ins."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.verb import (
    JSON_OPTION,
    YES_OPTION,
    AdminVerb,
    VerbCall,
    VerbResult,
    argument,
    rows_result,
    slash_command,
)
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, localize, tr
from hermes.markup.cells import pad_text
from hermes.util.text import escape_confusable_characters, to_one_line

if TYPE_CHECKING:
    from hermes.admin.plugins import PluginAdmin, PluginRow, ProviderChoice
    from hermes.hooks.statistics_file import HookRecord

_MAX_OFFER = 10_000
"""More than any command of a hook has: a person sees the whole of what they enable."""
_STATES = {
    "enabled": N_("enabled"),
    "off": N_("off"),
    "changed": N_("changed since it was enabled; off"),
    "invalid": N_("cannot be used"),
    "untrusted": N_("its folder is not trusted; off"),
}


@contextlib.asynccontextmanager
async def _open_admin(call: VerbCall) -> "AsyncIterator[PluginAdmin]":
    from hermes.admin.plugins import PluginAdmin

    folder = call.context.app.options.cwd if call.context is not None else ""
    yield PluginAdmin(call.environ, folder)


PLUGINS = AdminVerb(
    "plugins",
    _open_admin,
    description="Other people's code: the hooks of config.yaml and of Claude Code's settings, installed packages, and"
    " plug-ins in folders. Nothing of it runs before you enable it, and what has changed since asks again.",
    example="hermes plugins enable hooks",
)
_NAME = argument("name", help="what `hermes plugins list` calls it")


@PLUGINS.admin_action("list", "what there is, and whether it runs (also without a verb)", JSON_OPTION, in_chats=True)
async def list_plugins(admin: "PluginAdmin", call: VerbCall) -> VerbResult:
    """List other people's code."""
    rows = await asyncio.to_thread(admin.list_rows)
    return rows_result(rows, _format_row, tr("There are no plug-ins. `hermes plugins new NAME` begins one."))


@PLUGINS.admin_action("info", "what one would run, and with which rights", _NAME, JSON_OPTION, in_chats=True)
async def show_plugin(admin: "PluginAdmin", call: VerbCall) -> VerbResult:
    """Show one."""
    row = await asyncio.to_thread(admin.find, call.args.name)
    return VerbResult(row, _format_details(row))


@PLUGINS.admin_action("enable", "let one run, as it is now", _NAME, YES_OPTION, JSON_OPTION)
async def enable_plugin(admin: "PluginAdmin", call: VerbCall) -> VerbResult:
    """Enable one, after showing what it would run."""
    row = await asyncio.to_thread(admin.find, call.args.name)
    call.show(_format_details(row))
    if not call.args.yes:
        await call.require_yes(tr("Enable it?"), what=tr("Enabling {name}", name=row.name))
    await asyncio.to_thread(admin.enable, row)
    line = tr("{name} is enabled, from the next session on.", name=row.name)
    return VerbResult({"name": row.name, "enabled": True}, [line])


@PLUGINS.admin_action("new", "write an example plug-in into the home", _NAME, JSON_OPTION)
async def create_plugin(admin: "PluginAdmin", call: VerbCall) -> VerbResult:
    """Begin a plug-in."""
    folder = await asyncio.to_thread(admin.create_folder, call.args.name)
    shown = escape_confusable_characters(str(folder))
    lines = [
        tr("Written to {folder}. `hermes plugins enable {name}` enables it.", folder=shown, name=call.args.name),
        tr("docs/plugins.md says what a plug-in may do."),
    ]
    return VerbResult({"name": call.args.name, "folder": str(folder)}, lines)


@PLUGINS.admin_action("disable", "let one run no more, from the next session on", _NAME, JSON_OPTION)
async def disable_plugin(admin: "PluginAdmin", call: VerbCall) -> VerbResult:
    """Disable one."""
    changed = await asyncio.to_thread(admin.disable, call.args.name)
    said = tr("{name} is off, from the next session on.") if changed else tr("{name} was not enabled.")
    return VerbResult({"name": call.args.name, "enabled": False}, [said.format(name=call.args.name)])


@PLUGINS.admin_action(
    "use",
    "choose the context engine or the further memory",
    argument("kind", choices=["engine", "memory"], help="what is chosen"),
    argument("name", nargs="?", default="", help="which one; without it you are asked"),
    JSON_OPTION,
)
async def use_provider(admin: "PluginAdmin", call: VerbCall) -> VerbResult:
    """Choose the provider of a kind, by its name or from a menu."""
    from hermes.admin.plugins import ProviderKind

    kind = ProviderKind(call.args.kind)
    name = call.args.name or _choose_provider(await asyncio.to_thread(admin.list_providers, kind), call)
    changed = await asyncio.to_thread(admin.use_provider, kind, name)
    said = tr("{name} is used, from the next session on.") if changed else tr("{name} is used already.")
    return VerbResult({"kind": kind.value, "name": name, "changed": changed}, [said.format(name=name)])


def _choose_provider(choices: "Sequence[ProviderChoice]", call: VerbCall) -> str:
    """Ask for one of a few names. Raises UsageError where nobody can be asked, or for another number."""
    names = [one.name for one in choices]
    used = tr("(in use)")
    rows = [f"  {number}. {one.name} {used if one.used else ''}".rstrip() for number, one in enumerate(choices, 1)]
    call.show([escape_confusable_characters(row) for row in rows])
    answer = call.ask_line(tr("A number or a name:") + " ")
    if not answer:
        raise UsageError(N_("Nothing was chosen."), N_("Name one of these: {names}.", names=", ".join(names)))
    if answer.isdecimal() and 0 < int(answer[:6]) <= len(names):
        return names[int(answer[:6]) - 1]
    return answer


@PLUGINS.admin_action("doctor", "what is wrong, and what hooks have cost lately", JSON_OPTION, in_chats=True)
async def examine_plugins(admin: "PluginAdmin", call: VerbCall) -> VerbResult:
    """Show what does not run and why, and the numbers of hooks."""
    del call
    rows = await asyncio.to_thread(admin.list_rows)
    records = await asyncio.to_thread(admin.list_hook_records)
    commands = await asyncio.to_thread(_list_command_problems)
    bad = [row for row in rows if row.problems or row.state.value not in ("enabled", "off")]
    lines = [line for row in bad for line in (_format_row(row), *_format_problems(row))]
    lines += [escape_confusable_characters(localize(one)) for one in commands]
    lines += [_format_record(one) for one in records]
    value = {"problems": bad, "commands": commands, "hooks": records}
    nothing = [tr("Nothing is wrong, and no hook has been called.")]
    return VerbResult(value, lines or nothing, exit_code=1 if bad or commands else 0)


def _list_command_problems() -> Sequence[str]:
    from hermes.commands.registry import list_package_problems

    return list_package_problems()


def _format_record(one: "HookRecord") -> str:
    said = tr(
        "{name} calls: {calls}, failed: {failures}, 95 of 100 within {ms} ms",
        name=pad_text(escape_confusable_characters(one.name), 32),
        calls=one.calls,
        failures=one.failures,
        ms=one.slow_ms,
    )
    return f"{said}  {escape_confusable_characters(one.last_failure)}".rstrip()


def _format_row(row: "PluginRow") -> str:
    state = tr(_STATES[row.state.value])
    place = to_one_line(escape_confusable_characters(row.place), 100)
    return f"{pad_text(row.name, 24)} {pad_text(row.kind.value, 8)} {pad_text(row.version, 10)} {state}  {place}"


def _format_details(row: "PluginRow") -> list[str]:
    """Return what a person reads before they enable something."""
    rights = (
        tr("It runs in the sandbox, with no more rights than stand here.")
        if row.is_confined
        else tr("It runs with all of your rights, outside of the sandbox.")
    )
    if row.state.value in ("invalid", "untrusted") and not row.offers:
        return [_format_row(row), *_format_problems(row)]
    offers = [f"  {to_one_line(localize(escape_confusable_characters(one)), _MAX_OFFER)}" for one in row.offers]
    return [_format_row(row), rights, *offers, *_format_problems(row)]


def _format_problems(row: "PluginRow") -> list[str]:
    reasons = [localize(escape_confusable_characters(one)) for one in row.problems]
    return ["  " + tr("does not run: {reason}", reason=one) for one in reasons]


COMMANDS = CommandList(CommandGroup.MODEL)


@COMMANDS.command("plugin", N_("run a command of a folder plug-in"), usage=N_("NAME COMMAND [text]"))
async def run_plugin_command(call: CommandCall) -> None:
    """Run a command of a folder plug-in and show what it says. Only the owner has plug-ins."""
    words = call.words
    if len(words) < 2:
        raise UsageError(N_("/plugin takes the name of a plug-in, a command of it, and a text."))
    actor, app = call.context.actor, call.context.app
    live = app.live_session(actor)
    if live.options.person:
        raise UsageError(N_("Plug-ins are the owner's."))
    text = call.text.split(None, 2)[2] if len(call.text.split(None, 2)) > 2 else ""
    said = await app.services.plugin_host().run_command(
        words[0], words[1], text, session_id=actor.session_id, workspace=live.tools.context.places.workspace
    )
    call.context.tell(said)


COMMANDS.append(
    slash_command(
        PLUGINS,
        about=N_("other people's code: what runs here, and what it may do"),
        usage="[list | info NAME | doctor]",
        group=CommandGroup.MODEL,
        takes=N_("/plugins takes list, doctor, or info and a name."),
        outside=N_("That is done in a terminal."),
    )
)
