"""`/undo`, `/rewind`, `/redo`, `/retry`, `/rollback`, `/diff`, `/branch`: undo turns and file changes, or branch."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.commands.command import TERMINAL_ONLY, CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.i18n.formats import format_time
from hermes.i18n.messages import N_, join_sentences, tr, tr_plural
from hermes.util.text import escape_unseen_characters, strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.sessions.undo import CheckpointSummary, FileDiff, RestoreResult, SessionUndo

_MAX_NAMED_FILES = 12
_MAX_DIFF_LINES = 200
_MAX_MESSAGES = 200
"""Messages that can be gone back to from a menu."""


def _session_undo(call: CommandCall) -> "SessionUndo":
    return call.context.app.session_undo(call.context.actor)


def _parse_count(call: CommandCall, *, default: int) -> int:
    """Parse the number behind the name. Raises UsageError for what is no positive number."""
    if not call.text:
        return default
    if not call.text.isdecimal() or not int(call.text[:9]) > 0:
        raise UsageError(N_("/{name} takes a number from 1 on.", name=call.name))
    return int(call.text[:9])


_CHANGE_WORDS = {
    "changed": N_("changed"),
    "created": N_("created"),
    "deleted": N_("deleted"),
    "mode": N_("permissions changed"),
}
_NOTE_WORDS = {
    "binary": N_("not text, or no longer kept"),
    "not-text": N_("not text"),
    "large": N_("too large to compare"),
    "hidden": N_("not shown: it may hold keys"),
    "link": N_("a link"),
    "other": N_("not a regular file"),
}
COMMANDS = CommandList(CommandGroup.SESSION)


@COMMANDS.command(
    "undo", N_("take back the last turn, or N, and what it did to files"), usage=N_("[N]"), while_busy=False
)
async def undo_turns(call: CommandCall) -> None:
    """Undo the last turns and their file changes; the first undone message can be edited again."""
    await _go_back(call, _parse_count(call, default=1))


@COMMANDS.command("rewind", N_("go back to an earlier message, and edit it"), surfaces=TERMINAL_ONLY, while_busy=False)
async def choose_message(call: CommandCall) -> None:
    """Go back to a message from a menu: it and what followed are undone with their file changes."""
    call.require_no_arguments()
    messages = await _session_undo(call).list_messages(_MAX_MESSAGES)
    if not messages:
        call.context.tell(tr("There is no message to go back to yet."))
        return
    options = [MenuOption(to_one_line(escape_unseen_characters(one.text), 200) or "-") for one in messages]
    title = tr("Go back to which message? What the turns since have changed in files is put back, too.")
    taken = await call.context.choose(title, options)
    if taken is not None:
        await _go_back(call, taken + 1)


async def _go_back(call: CommandCall, turns: int) -> None:
    done = await _session_undo(call).undo_turns(turns)
    told = tr_plural("{n} turn was taken back.", "{n} turns were taken back.", done.turns)
    again = tr("/redo restores it until you send the next message.") if done.redo else ""
    call.context.tell(join_sentences(told, again))
    _report_files(call, done.files)
    call.context.prefill_input(done.text)
    await call.context.refresh_view()


@COMMANDS.command("redo", N_("redo what /undo undid last"), while_busy=False)
async def redo_turns(call: CommandCall) -> None:
    """Redo the last undo."""
    call.require_no_arguments()
    done = await _session_undo(call).redo_turns()
    call.context.tell(tr_plural("{n} message is back.", "{n} messages are back.", done.messages))
    _report_files(call, done.files)
    await call.context.refresh_view()


@COMMANDS.command("retry", N_("take the last answer back and ask the same again"), while_busy=False)
async def retry_turn(call: CommandCall) -> None:
    """Undo the last answer and ask again; files stay as they are."""
    call.require_no_arguments()
    inbound = await _session_undo(call).undo_last_turn()
    if call.context.terminal is None or not call.context.terminal.full:  # the full chat shows what is said in it
        call.context.tell(tr("Again: {text}", text=to_one_line(strip_control_characters(inbound.text), 200)))
    call.context.post_message(inbound if inbound.cwd else structs.replace(inbound, cwd=call.context.app.options.cwd))


async def complete_checkpoints(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the checkpoints by number."""
    return [
        MenuOption(str(row.number), _checkpoint_option(row).label)
        for row in await _session_undo(call).list_checkpoints()
    ]


@COMMANDS.command(
    "rollback",
    N_("put files back as they were before a turn"),
    usage=N_("[number]"),
    complete=complete_checkpoints,
    while_busy=False,
)
async def restore_files(call: CommandCall) -> None:
    """Restore files as they were before a turn; the conversation stays."""
    session_undo = _session_undo(call)
    rows = await session_undo.list_checkpoints()
    if not rows:
        call.context.tell(tr("No files of this session were copied before they were changed."))
        return
    if call.text:
        number = _parse_count(call, default=1)
    else:
        taken = await call.context.choose(
            tr("Put files back as they were before which turn?"), [_checkpoint_option(one) for one in rows]
        )
        if taken is None:
            return
        number = rows[taken].number
    _report_files(call, await session_undo.restore_files(number), always=True)


def _checkpoint_option(one: "CheckpointSummary") -> MenuOption:
    said = tr("files were put back") if one.restore else escape_unseen_characters(one.said)
    files = tr_plural("{n} file", "{n} files", len(one.files))
    return MenuOption(to_one_line(said, 80) or format_time(one.at), f"{format_time(one.at)} · {files}")


@COMMANDS.command(
    "diff",
    N_("what differs from the last commit, or what the agent has changed since a turn"),
    usage=N_("[number]"),
    complete=complete_checkpoints,
)
async def show_diff(call: CommandCall) -> None:
    """Show what differs in the whole working tree; with a number, or without git, what has changed since a turn."""
    if not call.text and not call.context.actor.busy and await _show_working_diff(call):
        return
    number = _parse_count(call, default=1)
    session_undo = _session_undo(call)
    if not call.text and not await session_undo.list_checkpoints():
        call.context.tell(tr("The agent has changed no file in this session."))
        return
    found = await session_undo.diff_since(number)
    if not found:
        call.context.tell(tr("Nothing differs from how it was then."))
        return
    for one in found:
        call.context.show(_format_diff(one))


async def _show_working_diff(call: CommandCall) -> bool:
    """Show how the working tree differs from its last commit, and what new files hold; return False where git does not
    tell.
    """
    from hermes.sessions.shell_escape import read_working_diff
    from hermes.sessions.undo import MAX_NEW_FILES, read_new_files

    tools = call.context.app.live_session(call.context.actor).tools
    found = await read_working_diff(tools.gate, tools.context)
    if found is None:
        return False
    diff, new = found
    if diff:
        call.context.show(_format_block(diff, is_cut=False))
    for one in await asyncio.to_thread(read_new_files, new, tools.context):
        call.context.show(_format_diff(one))
    if more := new[MAX_NEW_FILES:]:
        call.context.tell(tr("New, not known to git: {files}", files=_format_names(more)))
    if not diff and not new:
        call.context.tell(tr("Nothing differs from the last commit."))
    return True


def _format_block(text: str, *, is_cut: bool) -> str:
    lines = strip_control_characters(text).split("\n")
    cut = [tr("… more lines")] if is_cut or len(lines) > _MAX_DIFF_LINES else []
    body = "\n".join([*lines[:_MAX_DIFF_LINES], *cut]).replace("```", "'''")
    return f"```diff\n{body}\n```"


def _format_diff(one: "FileDiff") -> str:
    change = tr(_CHANGE_WORDS[one.change]) if one.change in _CHANGE_WORDS else one.change
    counts = f", +{one.added} −{one.removed}" if one.added or one.removed else ""
    head = f"**{strip_control_characters(one.path).replace('*', '')}** ({change}{counts})"
    if not one.text:
        return f"{head} {tr(_NOTE_WORDS[one.note]) if one.note in _NOTE_WORDS else strip_control_characters(one.note)}"
    return f"{head}\n\n{_format_block(one.text, is_cut=one.cut)}"


def _report_files(call: CommandCall, files: "RestoreResult", *, always: bool = False) -> None:
    """Show which files were restored, and why others were skipped."""
    tell = call.context.tell
    if files.restored:
        tell(tr("Put back: {files}", files=_format_names(files.restored)))
    if files.deleted:
        tell(tr("Deleted again: {files}", files=_format_names(files.deleted)))
    for one in files.left[:_MAX_NAMED_FILES]:
        tell(
            tr(
                "Not put back: {file}: {why}",
                file=escape_unseen_characters(one.path),
                why=escape_unseen_characters(one.why),
            ),
            Level.WARNING,
        )
    if files.lost:
        tell(tr("No copy could be kept of: {files}", files=_format_names(files.lost)), Level.WARNING)
    if always and not (files.restored or files.deleted or files.left):
        tell(tr("All files are as they were then."))


def _format_names(files: Sequence[str]) -> str:
    more = f" … +{len(files) - _MAX_NAMED_FILES}" if len(files) > _MAX_NAMED_FILES else ""
    return ", ".join(escape_unseen_characters(one) for one in files[:_MAX_NAMED_FILES]) + more


@COMMANDS.command(
    "branch",
    N_("go on in a copy of this conversation; this one stays"),
    usage=N_("[title]"),
    aliases=("fork",),
    while_busy=False,
)
async def create_branch(call: CommandCall) -> None:
    """Continue in a new session that begins with this conversation; this one stays as it is."""
    if not call.context.actor.conversation.messages:
        call.context.tell(tr("This session has no messages yet, so there is nothing to branch from."))
        return
    made = await _session_undo(call).create_branch(call.text)
    await call.context.open_session(made.id, greet=False)
    call.context.tell(
        tr(
            "This is a branch of {parent} now: {id} “{title}”. /sessions shows both.",
            parent=made.parent,
            id=made.id,
            title=escape_unseen_characters(made.title),
        )
    )
