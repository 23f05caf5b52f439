"""`/export` (also `/save`) and `/snapshot`: this conversation, or the whole home, as a file."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.core.errors import StoreError, UsageError
from hermes.core.events import Level
from hermes.i18n.formats import compact, moment
from hermes.i18n.messages import phrase, say
from hermes.util.text import escaped

_FORMATS = ("md", "html", "jsonl")


async def export(call: Call) -> None:
    """Write the conversation into a file that is not there yet, or that may be written over."""
    words, form = call.words, ""
    if "--format" in words:
        at = words.index("--format")
        form = next(iter(words[at + 1 : at + 2]), "")
        words = [*words[:at], *words[at + 2 :]]
    if len(words) > 1 or any(one.startswith("--") for one in words):
        raise UsageError(phrase("/{name} takes a file and --format md, html or jsonl.", name=call.name))
    named = words[0] if words else f"{call.desk.actor.session_id}.{form or 'md'}"
    form = form or named.rpartition(".")[2].lower()
    if form not in _FORMATS:
        raise UsageError(phrase("There is no format {name!r}.", name=form), "--format md, html, jsonl")
    target, there = await asyncio.to_thread(_target, call.desk.app.options.cwd, named)
    if there and not await call.desk.confirm(say("{file} is there already. Write over it?", file=escaped(str(target)))):
        call.desk.tell(say("Nothing was written."))
        return
    from hermes.admin.export import exported
    from hermes.admin.sessions import Sessions
    from hermes.util.atomic import write_atomic

    on = call.desk.app.premises
    found = await Sessions(on.store, on.home).show(call.desk.actor.session_id)
    try:
        await asyncio.to_thread(write_atomic, target, exported(found, form))
    except OSError as error:
        raise StoreError(phrase("{file} cannot be written: {why}.", file=target, why=error.strerror)) from None
    call.desk.tell(say("Written: {file}", file=escaped(str(target))))


def _target(folder: str, named: str) -> tuple[Path, bool]:
    """The file that is meant, and whether something is there."""
    target = Path(folder or os.getcwd()) / Path(named).expanduser()
    return target, os.path.lexists(target)


async def formats(_call: Call) -> Sequence[Option]:
    """The formats."""
    return [Option("--format"), *(Option(form) for form in _FORMATS)]


async def snapshot(call: Call) -> None:
    """Make a backup of the home, or list those there are."""
    from hermes.admin.backup import back_up, backups

    on = call.desk.app.premises
    match call.words:
        case [] | ["list"]:
            rows = await asyncio.to_thread(backups, on.environ)
            lines = [f"  {row['name']}  {moment(float(str(row['made_at'])))}  {compact(_number(row))}B" for row in rows]
            call.desk.tell("\n".join(escaped(line) for line in lines) or say("There is no backup yet."))
            call.desk.tell(say("/snapshot create makes one; `hermes restore FILE` puts one back."))
        case ["create"]:
            made = await asyncio.to_thread(back_up, on.environ)
            call.desk.tell(say("Made: {file} ({size}B)", file=escaped(str(made["file"])), size=compact(_number(made))))
            if made["keys"]:
                call.desk.tell(say("Keys are in it: keep it as you keep them."), Level.WARNING)
        case ["restore" | "prune", *_]:
            raise UsageError(
                phrase("A home is put back while no chat is open."),
                phrase("`hermes restore FILE`; /snapshot list names them."),
            )
        case _:
            raise UsageError(phrase("/snapshot takes `create`, `list` or nothing."))


def _number(row: dict[str, object]) -> int:
    return int(str(row["bytes"]))


async def snapshot_verbs(_call: Call) -> Sequence[Option]:
    """Its words."""
    return [Option("create"), Option("list")]


COMMANDS = (
    Command(
        name="export",
        aliases=("save",),
        about=phrase("write this conversation into a file"),
        usage=phrase("[file] [--format md|html|jsonl]"),
        group=Group.SESSION,
        run=export,
        complete=formats,
    ),
    Command(
        name="snapshot",
        aliases=("snap",),
        about=phrase("back up all that Hermes keeps, or list backups"),
        usage=phrase("[create|list]"),
        group=Group.ABOUT,
        run=snapshot,
        complete=snapshot_verbs,
    ),
)
