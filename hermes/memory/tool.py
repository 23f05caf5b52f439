"""The `memory` tool: short notes that outlive the session. What untrusted content may have caused waits
for approval.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from hermes.core.errors import HermesError, ToolError
from hermes.i18n.messages import N_
from hermes.memory.files import EntryChange, MemoryTarget
from hermes.memory.journal import Action, ChangeOrigin, MemoryJournal, MemoryOperation, MemoryOutcome
from hermes.store.revisions import RevisionAuthor
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool, tool

HELD_MESSAGE = (
    "Change {ids} waits for the person's approval: {why}. Nothing was written. Go on "
    "without it; they see it with `hermes memory pending`."
)
PENDING_NOTICE = "A new memory waits for your approval ({why}): `hermes memory pending` shows it."


class MemoryParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `memory` takes."""

    target: Annotated[MemoryTarget, Meta(description="memory: your notes; user: who the person is.")]
    action: Action | None = None
    content: Annotated[str, Meta(description="The entry (add, replace).")] = ""
    old_text: Annotated[str, Meta(description="Words of the one entry meant (replace, remove).")] = ""
    operations: Annotated[tuple[MemoryOperation, ...], Meta(description="Several at once, all or none.")] = ()


OnMemoryWritten = Callable[[Sequence[EntryChange]], Awaitable[None]]


def build_memory_tool(
    journal: MemoryJournal, *, approval: bool, notify_user: Callable[[str], None], on_written: OnMemoryWritten
) -> Tool:
    """Build the tool over these memories.

    `approval`: everything waits for approval; `notify_user` gives the user a line; `on_written` is called
    with what was
    written.
    """

    @tool("memory", repeatable=True, housekeeping=True, summary=_summarize_call)
    async def memory(ctx: ToolContext, note: MemoryParams) -> str:
        """Keep a lasting fact for later sessions, or correct one. Space is limited."""
        operations = _list_operations(note)
        sources = ctx.state.taint.list_sources()
        origin = ChangeOrigin(author=RevisionAuthor.MODEL, sources=sources, session_id=ctx.session_id)
        held = approval or bool(sources)
        try:
            done = await (journal.hold_operations if held else journal.write_operations)(
                note.target, operations, origin
            )
        except HermesError as error:
            raise ToolError(str(error)) from None
        usage = N_(
            "{file}: {format_usage} characters.",
            file=note.target.file,
            format_usage=journal.notebook_for(note.target).format_usage(done.entries),
        )
        if not held:
            await on_written(done.changes)
        if not held or not done.ids:
            return f"{_format_outcome(done)} {usage}"
        why = "untrusted content is in this conversation" if sources else "every change needs one"
        notify_user(PENDING_NOTICE.format(why=why))
        return f"{HELD_MESSAGE.format(ids=', '.join(map(str, done.ids)), why=why)} {usage}"

    return memory


def _list_operations(note: MemoryParams) -> tuple[MemoryOperation, ...]:
    if note.operations and (note.action is not None or note.content or note.old_text):
        raise ToolError("Give either operations, or one action with its content and old_text.")
    if note.operations:
        return note.operations
    if note.action is None:
        raise ToolError("Give an action (add, replace, remove), or operations.")
    return (MemoryOperation(action=note.action, content=note.content, old_text=note.old_text),)


def _format_outcome(done: MemoryOutcome) -> str:
    count = len(done.ids)
    parts = (
        [
            N_(
                "Saved ({count} change{count_2}); it counts from the next session on.",
                count=count,
                count_2="s" if count > 1 else "",
            )
        ]
        if count
        else []
    )
    if done.known:
        parts.append(
            "Already there: nothing to add."
            if len(done.known) == 1
            else N_("Already there: {known}.", known=len(done.known))
        )
    return " ".join(parts or ["Nothing changes by that."])


def _summarize_call(arguments: Arguments) -> str:
    action = arguments.get("action") or "change"
    return f"{action} {arguments.get('target')}: {arguments.get('content') or arguments.get('old_text')}"
