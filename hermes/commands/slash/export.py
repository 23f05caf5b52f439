"""`/export` (also `/save`) and `/snapshot`: write this conversation, or the whole home, to a file."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.errors import StoreError, UsageError
from hermes.core.events import Level
from hermes.i18n.formats import format_compact, format_time
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_unseen_characters

_FORMATS = ("md", "html", "jsonl")


async def export_conversation(call: CommandCall) -> None:
    """Write the conversation to a file that does not exist yet, or that may be overwritten."""
    words, form = call.words, ""
    if "--format" in words:
        at = words.index("--format")
        form = next(iter(words[at + 1 : at + 2]), "")
        words = [*words[:at], *words[at + 2 :]]
    if len(words) > 1 or any(one.startswith("--") for one in words):
        raise UsageError(N_("/{name} takes a file and --format md, html or jsonl.", name=call.name))
    named = words[0] if words else f"{call.context.actor.session_id}.{form or 'md'}"
    form = form or named.rpartition(".")[2].lower()
    if form not in _FORMATS:
        raise UsageError(N_("There is no format {name!r}.", name=form), "--format md, html, jsonl")
    target, there = await asyncio.to_thread(_resolve_target, call.context.app.options.cwd, named)
    if there and not await call.context.confirm(
        tr("{file} is there already. Write over it?", file=escape_unseen_characters(str(target)))
    ):
        call.context.tell(tr("Nothing was written."))
        return
    from hermes.admin.export import export_session
    from hermes.admin.sessions import SessionAdmin
    from hermes.util.atomic_write import write_atomic

    on = call.context.app.services
    found = await SessionAdmin(on.store, on.home).show_session(call.context.actor.session_id)
    try:
        await asyncio.to_thread(write_atomic, target, export_session(found, form))
    except OSError as error:
        raise StoreError(N_("{file} cannot be written: {why}.", file=target, why=error.strerror)) from None
    call.context.tell(tr("Written: {file}", file=escape_unseen_characters(str(target))))


def _resolve_target(folder: str, named: str) -> tuple[Path, bool]:
    """Return the target file, and whether it exists."""
    target = Path(folder or os.getcwd()) / Path(named).expanduser()
    return target, os.path.lexists(target)


async def complete_export(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the formats."""
    return [MenuOption("--format"), *(MenuOption(form) for form in _FORMATS)]


async def manage_backups(call: CommandCall) -> None:
    """Create a backup of the home, or list the backups."""
    from hermes.admin.backup import create_backup, list_backups

    on = call.context.app.services
    match call.words:
        case [] | ["list"]:
            rows = await asyncio.to_thread(list_backups, on.environ)
            lines = [
                f"  {row['name']}  {format_time(float(str(row['made_at'])))}  {format_compact(_size_bytes(row))}B"
                for row in rows
            ]
            call.context.tell(
                "\n".join(escape_unseen_characters(line) for line in lines) or tr("There is no backup yet.")
            )
            call.context.tell(tr("/snapshot create makes one; `hermes restore FILE` puts one back."))
        case ["create"]:
            made = await asyncio.to_thread(create_backup, on.environ)
            call.context.tell(
                tr(
                    "Made: {file} ({size}B)",
                    file=escape_unseen_characters(str(made["file"])),
                    size=format_compact(_size_bytes(made)),
                )
            )
            if made["keys"]:
                call.context.tell(tr("Keys are in it: keep it as you keep them."), Level.WARNING)
        case ["restore" | "prune", *_]:
            raise UsageError(
                N_("A home is put back while no chat is open."),
                N_("`hermes restore FILE`; /snapshot list names them."),
            )
        case _:
            raise UsageError(N_("/snapshot takes `create`, `list` or nothing."))


def _size_bytes(row: dict[str, object]) -> int:
    return int(str(row["bytes"]))


async def complete_snapshot(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the subcommands."""
    return [MenuOption("create"), MenuOption("list")]


COMMANDS = (
    SlashCommand(
        name="export",
        aliases=("save",),
        about=N_("write this conversation into a file"),
        usage=N_("[file] [--format md|html|jsonl]"),
        group=CommandGroup.SESSION,
        run=export_conversation,
        complete=complete_export,
    ),
    SlashCommand(
        name="snapshot",
        aliases=("snap",),
        about=N_("back up all that Hermes keeps, or list backups"),
        usage=N_("[create|list]"),
        group=CommandGroup.ABOUT,
        run=manage_backups,
        complete=complete_snapshot,
    ),
)
