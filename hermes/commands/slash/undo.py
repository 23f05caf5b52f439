"""`/undo`, `/redo`, `/retry`, `/rollback`, `/diff`, `/branch`: what was said and done, taken back or gone on with."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.i18n.formats import moment
from hermes.i18n.messages import phrase, say, say_many
from hermes.util.text import escaped, inert, one_line

if TYPE_CHECKING:
    from hermes.sessions.file_diffs import FileDiff
    from hermes.sessions.undo import CheckpointLine, Restored, UndoDesk

_SHOWN = 12
_MOST_LINES = 200


def _desk(call: Call) -> "UndoDesk":
    return call.desk.app.undoing(call.desk.actor)


def _count(call: Call, *, default: int) -> int:
    """The number behind the name. Raises UsageError for what is none."""
    if not call.text:
        return default
    if not call.text.isdecimal() or not int(call.text[:9]) > 0:
        raise UsageError(phrase("/{name} takes a number from 1 on.", name=call.name))
    return int(call.text[:9])


async def undo(call: Call) -> None:
    """Take back the last turns with what they did to files; what was said first is there to be changed."""
    done = await _desk(call).undo(_count(call, default=1))
    told = say_many("{n} turn was taken back.", "{n} turns were taken back.", done.turns)
    call.desk.tell(told + (" " + say("/redo brings it back until something new is said.") if done.redo else ""))
    _tell_files(call, done.files)
    call.desk.prefill(done.text)
    await call.desk.refresh()


async def redo(call: Call) -> None:
    """Bring back what was taken back last."""
    call.nothing_behind()
    done = await _desk(call).redo()
    call.desk.tell(say_many("{n} message is back.", "{n} messages are back.", done.messages))
    _tell_files(call, done.files)
    await call.desk.refresh()


async def retry(call: Call) -> None:
    """Take the last answer back and ask the same again; files stay as they are."""
    call.nothing_behind()
    inbound = await _desk(call).retry()
    if call.desk.terminal is None or not call.desk.terminal.full:  # the full chat shows what is said in it
        call.desk.tell(say("Again: {text}", text=one_line(inert(inbound.text), 200)))
    call.desk.post(inbound if inbound.cwd else structs.replace(inbound, cwd=call.desk.app.options.cwd))


async def rollback(call: Call) -> None:
    """Put files back as they were before a turn; the conversation stays."""
    desk = _desk(call)
    rows = await desk.checkpoints()
    if not rows:
        call.desk.tell(say("No files of this session were copied before they were changed."))
        return
    if call.text:
        number = _count(call, default=1)
    else:
        taken = await call.desk.choose(
            say("Put files back as they were before which turn?"), [_row(one) for one in rows]
        )
        if taken is None:
            return
        number = rows[taken].number
    _tell_files(call, await desk.rollback(number), always=True)


async def checkpoints(call: Call) -> Sequence[Option]:
    """The checkpoints by number."""
    return [Option(str(row.number), _row(row).label) for row in await _desk(call).checkpoints()]


def _row(one: "CheckpointLine") -> Option:
    said = say("files were put back") if one.restore else escaped(one.said)
    files = say_many("{n} file", "{n} files", len(one.files))
    return Option(one_line(said, 80) or moment(one.at), f"{moment(one.at)} · {files}")


async def diff(call: Call) -> None:
    """Show what is another now than it was before a turn."""
    number = _count(call, default=1)
    desk = _desk(call)
    if not call.text and not await desk.checkpoints():
        call.desk.tell(say("The agent has changed no file in this session."))
        return
    found = await desk.diff(number)
    if not found:
        call.desk.tell(say("Nothing differs from how it was then."))
        return
    for one in found:
        call.desk.show(_diff_text(one))


def _diff_text(one: "FileDiff") -> str:
    head = f"**{inert(one.path).replace('*', '')}** ({one.change}, +{one.added} −{one.removed})"
    if not one.text:
        return f"{head} {inert(one.note)}"
    lines = inert(one.text).split("\n")
    cut = [say("… more lines")] if one.cut or len(lines) > _MOST_LINES else []
    body = "\n".join([*lines[:_MOST_LINES], *cut]).replace("```", "'''")
    return f"{head}\n\n```diff\n{body}\n```"


def _tell_files(call: Call, files: "Restored", *, always: bool = False) -> None:
    """What was done with files; of those that stayed, why."""
    tell = call.desk.tell
    if files.restored:
        tell(say("Put back: {files}", files=_named(files.restored)))
    if files.deleted:
        tell(say("Deleted again: {files}", files=_named(files.deleted)))
    for one in files.left[:_SHOWN]:
        tell(say("Left as it is: {file}: {why}", file=escaped(one.path), why=escaped(one.why)), Level.WARNING)
    if files.lost:
        tell(say("No copy could be kept of: {files}", files=_named(files.lost)), Level.WARNING)
    if always and not (files.restored or files.deleted or files.left):
        tell(say("All files are as they were then."))


def _named(files: Sequence[str]) -> str:
    more = f" … +{len(files) - _SHOWN}" if len(files) > _SHOWN else ""
    return ", ".join(escaped(one) for one in files[:_SHOWN]) + more


async def branch(call: Call) -> None:
    """Go on in a session of its own that begins with this conversation; this one stays as it is."""
    if not call.desk.actor.conversation.messages:
        call.desk.tell(say("Nothing was said in this session yet: there is nothing to branch from."))
        return
    made = await _desk(call).branch(call.text)
    await call.desk.open(made.id, greet=False)
    call.desk.tell(
        say(
            "This is a branch of {parent} now: {id} “{title}”. /sessions shows both.",
            parent=made.parent,
            id=made.id,
            title=escaped(made.title),
        )
    )


COMMANDS = (
    Command(
        name="undo",
        about=phrase("take back the last turn, or N, and what it did to files"),
        usage=phrase("[N]"),
        group=Group.SESSION,
        run=undo,
        while_busy=False,
    ),
    Command(
        name="redo",
        about=phrase("bring back what /undo took back last"),
        group=Group.SESSION,
        run=redo,
        while_busy=False,
    ),
    Command(
        name="retry",
        about=phrase("take the last answer back and ask the same again"),
        group=Group.SESSION,
        run=retry,
        while_busy=False,
    ),
    Command(
        name="rollback",
        about=phrase("put files back as they were before a turn"),
        usage=phrase("[number]"),
        group=Group.SESSION,
        run=rollback,
        complete=checkpoints,
        while_busy=False,
    ),
    Command(
        name="diff",
        about=phrase("what the agent has changed in files since a turn"),
        usage=phrase("[number]"),
        group=Group.SESSION,
        run=diff,
        complete=checkpoints,
    ),
    Command(
        name="branch",
        aliases=("fork",),
        about=phrase("go on in a copy of this conversation; this one stays"),
        usage=phrase("[title]"),
        group=Group.SESSION,
        run=branch,
        while_busy=False,
    ),
)
