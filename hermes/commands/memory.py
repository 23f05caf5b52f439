"""`hermes memory`, `/memory`: show and change what the agent remembers, decide on its proposed changes, undo them."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hermes.admin.home_services import open_home_services
from hermes.commands.command import CommandCall, CommandGroup
from hermes.commands.context import MenuOption
from hermes.commands.skills import format_decision
from hermes.commands.verb import (
    JSON_OPTION,
    AdminVerb,
    JsonLayout,
    VerbCall,
    VerbResult,
    argument,
    rows_result,
    slash_command,
)
from hermes.config.environment import merge_dotenv
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import HermesError
from hermes.i18n.messages import N_, localize, tr
from hermes.memory.files import MemoryTarget
from hermes.memory.journal import ChangeOrigin, MemoryJournal, MemoryOperation, change_from_revision, describe_change
from hermes.sessions.features.memory import memory_journal
from hermes.sessions.secrets import build_redactor
from hermes.store.revisions import Revision, RevisionAuthor
from hermes.util.text import escape_unseen_characters

if TYPE_CHECKING:
    from hermes.runtime.actor import SessionActor
    from hermes.sessions.app import App

USER_ORIGIN = ChangeOrigin(author=RevisionAuthor.PERSON)


class MemoryAdmin:
    """Operations of a person on their memories; returns plain rows and lines for a front-end to show."""

    def __init__(self, journal: MemoryJournal) -> None:
        self.journal = journal

    async def list_files(self) -> list[Plain]:
        """List each memory file with its entries, or the reason why it cannot be read."""
        rows: list[Plain] = []
        for target, book in self.journal.notebooks.items():
            row: Plain = {"target": str(target), "file": str(book.path), "limit": book.limit}
            try:
                entries = await self.journal.read_entries(target)
                row |= {"usage": book.format_usage(entries), "entries": list(entries), "wrong": ""}
            except HermesError as error:
                row |= {"usage": "", "entries": [], "wrong": str(error)}
            rows.append(row)
        return rows

    async def add_entry(self, target: str, text: str) -> str:
        """Add an entry and return what came of it."""
        return await self._write_operation(target, MemoryOperation(action="add", content=text))

    async def remove_entry(self, target: str, words: str) -> str:
        """Remove the entry that holds these words and return what came of it."""
        return await self._write_operation(target, MemoryOperation(action="remove", old_text=words))

    async def list_pending(self) -> list[Plain]:
        """List the changes that wait for approval."""
        return [memory_revision_row(one) for one in await self.journal.list_pending()]

    async def list_log(self) -> list[Plain]:
        """List the newest changes."""
        return [memory_revision_row(one) for one in await self.journal.list_revisions()]

    async def approve_change(self, revision_id: int) -> Plain:
        """Approve a pending change."""
        return memory_revision_row(await self.journal.approve_change(revision_id, "person"))

    async def reject_change(self, revision_id: int) -> Plain:
        """Reject a pending change."""
        return memory_revision_row(await self.journal.reject_change(revision_id, "person"))

    async def undo_change(self, revision_id: int) -> Plain:
        """Undo an applied change."""
        return memory_revision_row(await self.journal.undo_change(revision_id, "person"))

    async def _write_operation(self, target: str, operation: MemoryOperation) -> str:
        which = MemoryTarget(target)
        done = await self.journal.write_operations(which, (operation,), USER_ORIGIN)
        said = tr("Change {ids}.", ids=done.ids[0]) if done.ids else tr("That is already there.")
        usage = self.journal.notebook_for(which).format_usage(done.entries)
        return tr("{said} {file}: {format_usage} characters.", said=said, file=which.file, format_usage=usage)


def memory_admin(app: "App", actor: "SessionActor") -> MemoryAdmin:
    """Return what the person whom a live session works for can do with their memories."""
    on, person = app.services, app.live_session(actor).options.person
    return MemoryAdmin(memory_journal(on.home, on.settings, on.store, on.redactor, person=person))


@asynccontextmanager
async def open_memory_admin(environ: Mapping[str, str], *, person: str = "") -> AsyncIterator[MemoryAdmin]:
    """Open the memories of this home's owner, or of `person`, for a front-end that has no session.

    Creates the home when there is none.
    """
    async with open_home_services(environ) as on:
        if person:
            from hermes.admin.people.admin import PeopleAdmin

            found = await PeopleAdmin(on.store, on.settings).find_person(person)
            person = "" if found["role"] == "owner" else str(found["id"])
        whole = merge_dotenv(environ, on.home.env_file)
        redactor = await asyncio.to_thread(build_redactor, whole, on.home, on.settings)
        journal = memory_journal(on.home, on.settings, on.store, redactor, person=person)
        await journal.settle_interrupted()
        yield MemoryAdmin(journal)


def memory_revision_row(revision: Revision) -> Plain:
    """Return a memory change as plain values."""
    change = change_from_revision(revision)
    row: Plain = to_plain(revision, builtin_types=(bytes,))
    row |= {"before": change.before, "after": change.after, "sources": list(revision.sources)}
    return row | {"what": describe_change(change)}


@asynccontextmanager
async def _open_memory(call: VerbCall) -> AsyncIterator[MemoryAdmin]:
    if call.context is not None:
        yield memory_admin(call.context.app, call.context.actor)
        return
    async with open_memory_admin(call.environ, person=call.args.person) as admin:
        yield admin


_PERSON = argument("--person", default="", metavar="ID", help="somebody's who talks from a chat: their id or name")
_ENTRY_WORDS = (
    _PERSON,
    argument("--user", action="store_true", help="in USER.md, about you; else in MEMORY.md"),
    argument("text", nargs="+", help="the words"),
)
_NUMBER = argument("number", type=int, help="the change, as `pending` or `log` numbers it")
MEMORY = AdminVerb(
    "memory",
    _open_memory,
    description="What the agent remembers from session to session: look at it, change it, decide on changes.",
    example='hermes memory add --user "Wants short answers."',
    json_layout=JsonLayout.LINE,
)


@MEMORY.admin_action("list", "all entries (also without a verb)", JSON_OPTION, _PERSON, in_chats=True)
async def list_memories(admin: MemoryAdmin, call: VerbCall) -> VerbResult:
    """List the memory files with their entries."""
    del call
    return rows_result(await admin.list_files(), format_memory_file, tr("There is no memory."))


@MEMORY.admin_action("add", "add an entry", *_ENTRY_WORDS, in_chats=True)
async def add_entry(admin: MemoryAdmin, call: VerbCall) -> VerbResult:
    """Add an entry."""
    return VerbResult(lines=[await admin.add_entry(_get_target(call), " ".join(call.args.text))])


@MEMORY.admin_action("remove", "remove the entry that holds these words", *_ENTRY_WORDS, in_chats=True)
async def remove_entry(admin: MemoryAdmin, call: VerbCall) -> VerbResult:
    """Remove the entry that holds the words."""
    return VerbResult(lines=[await admin.remove_entry(_get_target(call), " ".join(call.args.text))])


def _get_target(call: VerbCall) -> str:
    return "user" if call.args.user else "memory"


@MEMORY.admin_action("pending", "the changes that wait for your approval", JSON_OPTION, _PERSON, in_chats=True)
async def list_pending(admin: MemoryAdmin, call: VerbCall) -> VerbResult:
    """List the changes that wait for approval."""
    del call
    return rows_result(await admin.list_pending(), format_memory_change, tr("No change waits."))


@MEMORY.admin_action("approve", "say yes to a change", _PERSON, _NUMBER, in_chats=True)
async def approve_change(admin: MemoryAdmin, call: VerbCall) -> VerbResult:
    """Approve a pending change."""
    return _change_result(await admin.approve_change(call.args.number))


@MEMORY.admin_action("reject", "say no to a change", _PERSON, _NUMBER, in_chats=True)
async def reject_change(admin: MemoryAdmin, call: VerbCall) -> VerbResult:
    """Reject a pending change."""
    return _change_result(await admin.reject_change(call.args.number))


@MEMORY.admin_action("undo", "restore what a change replaced", _PERSON, _NUMBER, in_chats=True)
async def undo_change(admin: MemoryAdmin, call: VerbCall) -> VerbResult:
    """Undo an applied change."""
    return _change_result(await admin.undo_change(call.args.number))


@MEMORY.admin_action("log", "the newest 100 changes", JSON_OPTION, _PERSON, in_chats=True)
async def list_log(admin: MemoryAdmin, call: VerbCall) -> VerbResult:
    """List the newest changes."""
    del call
    return rows_result(await admin.list_log(), format_memory_change, tr("Nothing was ever changed."))


async def _complete_change(call: CommandCall) -> Sequence[MenuOption]:
    rows = await memory_admin(call.context.app, call.context.actor).list_pending()
    return [MenuOption(str(row["id"]), str(row["what"])) for row in rows]


def _change_result(row: Plain) -> VerbResult:
    """Tell the state of a change that was decided on."""
    state = tr(str(row["state"]))
    line = tr("Change {id} ({what}) is {state}.", id=row["id"], what=row["what"], state=state)
    return VerbResult(lines=[escape_unseen_characters(line)])


def format_memory_file(row: Plain) -> list[str]:
    """Format a memory file with its entries."""
    if row["wrong"]:
        return [escape_unseen_characters(localize(str(row["wrong"])))]
    entries = row["entries"]
    assert isinstance(entries, list)
    head = tr("{file}  {usage} characters", file=row["file"], usage=row["usage"])
    head += "" if entries else "  " + tr("(empty)")
    return [escape_unseen_characters(head), *(line for entry in entries for line in _entry_lines("- ", str(entry)))]


def format_memory_change(row: Plain) -> list[str]:
    """Format a change with all that a person needs to decide on it."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["made_at"]))))
    reason = f": {row['reason']}" if row["reason"] else ""
    who = tr("{name}, from {author}", name=row["name"], author=tr(str(row["author"])))
    lines = [escape_unseen_characters(f"{row['id']:>4}  {when}  {format_decision(row)}  {who}{reason}")]
    sources = row["sources"]
    assert isinstance(sources, list)
    lines += [
        "      " + tr("untrusted content was in the conversation: {text}", text=escape_unseen_characters(str(source)))
        for source in sources
    ]
    for sign, text in (("- ", row["before"]), ("+ ", row["after"])):
        lines += [f"      {line}" for line in _entry_lines(sign, str(text))] if text is not None else []
    if row["state"] == "pending":
        lines.append(
            "      " + tr("Decide with `hermes memory approve {id}` or `hermes memory reject {id}`.", id=row["id"])
        )
    return lines


def _entry_lines(sign: str, text: str) -> list[str]:
    """Format an entry behind its sign, with invisible and control characters escaped."""
    first, *more = text.split("\n")
    return [sign + escape_unseen_characters(first), *(f"  {escape_unseen_characters(line)}" for line in more)]


COMMANDS = [
    slash_command(
        MEMORY,
        about=N_("what is remembered; decide on changes that wait"),
        usage=N_("[pending|approve|reject|undo|log|add|remove] [which]"),
        group=CommandGroup.KNOWLEDGE,
        takes=N_("/memory takes: pending, approve N, reject N, undo N, log, add TEXT, remove WORDS."),
        complete=_complete_change,
    )
]
