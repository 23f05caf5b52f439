"""The `memory` tool: short notes that outlive the session. What strangers may have put in waits for a person's yes."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from hermes.core.errors import HermesError, ToolError
from hermes.memory.files import Change, Target
from hermes.memory.journal import Action, MemoryJournal, Operation, Origin, Outcome
from hermes.store.revisions import Author
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool, tool

HELD = (
    "Held for the person's yes as change {ids}: {why}. Nothing was written. Go on without it; they see it with"
    " `hermes memory pending`."
)
TOLD = "The agent wants to remember something; it waits for your yes ({why}): `hermes memory pending` shows it."


class Note(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `memory` takes."""

    target: Annotated[Target, Meta(description="memory: your notes; user: who the person is.")]
    action: Action | None = None
    content: Annotated[str, Meta(description="The entry (add, replace).")] = ""
    old_text: Annotated[str, Meta(description="Words of the one entry meant (replace, remove).")] = ""
    operations: Annotated[tuple[Operation, ...], Meta(description="Several at once, all or none.")] = ()


Wrote = Callable[[Sequence[Change]], Awaitable[None]]


def memory_tool(journal: MemoryJournal, *, approval: bool, tell: Callable[[str], None], wrote: Wrote) -> Tool:
    """The tool over these memories. `approval`: everything waits for a yes; `tell` gives the person a line; `wrote` is
    told what was written."""

    @tool("memory", repeatable=True, housekeeping=True, summary=_summary)
    async def memory(ctx: ToolContext, note: Note) -> str:
        """Keep a lasting fact for later sessions, or mend one. Entries are short; space is limited."""
        operations = _operations(note)
        sources = ctx.state.taint.list_sources()
        origin = Origin(author=Author.MODEL, sources=sources, session_id=ctx.session_id)
        held = approval or bool(sources)
        try:
            done = await (journal.hold if held else journal.write)(note.target, operations, origin)
        except HermesError as error:
            raise ToolError(str(error)) from None
        usage = f"{note.target.file}: {journal.book(note.target).usage(done.entries)} characters."
        if not held:
            await wrote(done.changes)
        if not held or not done.ids:
            return f"{_said(done)} {usage}"
        why = "text from strangers stands in this conversation" if sources else "every change needs one"
        tell(TOLD.format(why=why))
        return f"{HELD.format(ids=', '.join(map(str, done.ids)), why=why)} {usage}"

    return memory


def _operations(note: Note) -> tuple[Operation, ...]:
    if note.operations and (note.action is not None or note.content or note.old_text):
        raise ToolError("Give either operations, or one action with its content and old_text.")
    if note.operations:
        return note.operations
    if note.action is None:
        raise ToolError("Give an action (add, replace, remove), or operations.")
    return (Operation(action=note.action, content=note.content, old_text=note.old_text),)


def _said(done: Outcome) -> str:
    count = len(done.ids)
    parts = [f"Saved ({count} change{'s' if count > 1 else ''}); it counts from the next session on."] if count else []
    if done.known:
        parts.append("Already there: nothing to add." if len(done.known) == 1 else f"Already there: {len(done.known)}.")
    return " ".join(parts or ["Nothing changes by that."])


def _summary(arguments: Arguments) -> str:
    action = arguments.get("action") or "change"
    return f"{action} {arguments.get('target')}: {arguments.get('content') or arguments.get('old_text')}"
