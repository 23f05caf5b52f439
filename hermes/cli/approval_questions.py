"""The questions of a session that a person answers in a terminal: their words, and their life from asked to answered.

How a question is shown and answered (by a letter, by a menu) is what the two chats add.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.cli.event_texts import EDIT_TOOLS
from hermes.core.events import (
    WHILE_UNCHANGED,
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from hermes.core.messages import ToolStatus
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import N_, localize, tr
from hermes.util.localizable import Localizable
from hermes.util.text import escape_confusable_characters, is_long, shorten_command, to_one_line

if TYPE_CHECKING:
    from hermes.sessions.port import SessionPort

_THIS_CALL = "this call"
_MAX_NAME = 60
_COMMAND_TOOLS = frozenset({"terminal", "process"})
_SITE_TITLES = {
    "visit": N_("Open {host} in the browser?"),
    "send": N_("Let a page send data to {host}?"),
}
_TITLES = {
    "terminal": N_("Run this command?"),
    "process": N_("Type this into a running program?"),
    "write_file": N_("Write this file?"),
    "patch": N_("Change this file?"),
    "read_file": N_("Read this file?"),
    "search_files": N_("Search these files?"),
    "web_search": N_("Search the web for this?"),
    "web_extract": N_("Read this web page?"),
    "browser_navigate": N_("Open this web page?"),
    "browser_upload": N_("Upload these files?"),
    "memory": N_("Remember this?"),
    "skill_manage": N_("Change this skill?"),
    "cronjob": N_("Schedule this job?"),
}
_PLACES = {"write": N_("Let the command write here?"), "read": N_("Let the command read this?")}
_PLACE_TITLES = {
    **dict.fromkeys(("outside-workspace", "hidden-place", "unseen-place"), _PLACES),
    "uncopied-folder": {"change": N_("Let the command change files here?")},
}
"""Questions about places, by their rule and the verb of their subject."""
_JOINED = ("{first_said}; {second_said}", "{first_said}. {second_said}")
"""The templates by which the gate joins reasons, and a hint to them."""
_DANGEROUS = re.compile(
    r"\b(?:delet\w+|destroys|overwrit\w+|empties|wipes|drops|rewrites|throws away|cuts files off|moves \{path\} away"
    r"|keys|private key|with another user's rights|rights of the owner|everybody|what protects files|protection off"
    r"|who may use the machine|stops? the machine|what the machine needs|every process|without end|raw connection"
    r"|power over this machine|opens this machine|gives a shell|runs what it downloads|run what it says)\b"
)
"""What makes a reason dangerous; it is shown in red, and first."""
_COVERED = re.compile(r"`(?:cd [^`]* && )?([^`]+)`")
"""A command in the description of what an answer covers, without the folder before it."""
_SAID = frozenset({"how_said", "refused", "reason"})
"""Values that are words of ours, not names."""
_WITHDRAWN = "withdrawn"


class _OpenQuestion(Struct, frozen=True, kw_only=True):
    """An approval that is shown, or waits to be."""

    port: "SessionPort"
    """The session in which it is shown."""
    event: ApprovalAsked
    asker_id: str
    """The session that asks: that one, or a sub-agent of it, whose question does not end with the turn there."""
    task: "asyncio.Task[None]"


class ApprovalAsker(ABC):
    """Asks the approvals of the sessions of one chat, and is the `Asker` of their `clarify` tools. `close` ends its
    tasks.
    """

    asks_between_turns = True
    """Whether there is a place for questions while no turn runs; else a sub-agent's is only announced then."""

    def __init__(self) -> None:
        self._in_turn = False
        """Whether a turn of the session on the screen runs."""
        self._questions: dict[str, _OpenQuestion] = {}
        """The approvals that are shown or wait to be shown, by their ids."""
        self._shown_session_id = ""
        """The session on the screen; others run in the background."""
        self._edits: dict[str, str] = {}
        """The files that calls under way change, by the calls' ids."""
        self._changed_files: list[str] = []
        """The files that were changed, oldest first."""
        self._allowed: dict[str, int] = {}
        """What was allowed for the session, and how many files had been changed then."""

    def attach_session(self, port: "SessionPort", *, background: bool = False) -> None:
        """Ask this session's questions, too, from now on; `background`: it is not the one on the screen."""
        if not background:
            self._shown_session_id = port.session_id
            self._in_turn = port.busy
        port.approvals.can_ask = True
        port.subscribe(partial(self._handle_event, port))

    @abstractmethod
    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask a question of the model's. Return one of the choices, or the person's own words."""

    @abstractmethod
    async def ask_approval(self, event: ApprovalAsked, background_id: str) -> AnswerScope:
        """Ask an approval when the questions before it have their answers. `background_id` names the session that asks
        where it is not the one on the screen.
        """

    def announce(self, event: ApprovalAsked) -> None:
        """Say that something is asked that a command answers; for chats without a place for questions between turns."""
        del event

    @abstractmethod
    def show_closed(self, style: str, text: str) -> None:
        """Show why a question was closed without an answer from here; empty where its turn has just ended."""

    async def close(self) -> None:
        """Cancel the questions that are shown or wait."""
        tasks = [one.task for one in self._questions.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def describe_repetition(self, event: ApprovalAsked) -> str:
        """Say why something is asked about again that was allowed for the session; empty when it is new."""
        if event.subject not in self._allowed:
            return ""
        files = list(dict.fromkeys(self._changed_files[self._allowed[event.subject] :]))
        if not files:
            return tr("Asked again: what it runs or touches has changed since your yes.")
        names = ", ".join(to_one_line(escape_confusable_characters(one), 60) for one in files[:3])
        return tr("Asked again, since {files} changed.", files=names + (", …" if len(files) > 3 else ""))

    def _handle_event(self, port: "SessionPort", event: Event) -> None:
        shown = port.session_id == self._shown_session_id
        match event:
            case ToolStarted() | ToolEnded():
                self._note_edit(event)
            case TurnStarted() | TurnResumed():
                self._in_turn = self._in_turn or shown
            case ApprovalAsked():
                is_late = bool(event.asker) and not self._in_turn and not self.asks_between_turns
                self._begin_question(port, event, is_announced=is_late)
            case ApprovalAnswered() if event.approval_id in self._questions:
                self._close_question(self._questions[event.approval_id].task, *_describe_closing(event))
            case TurnEnded():
                self._in_turn = self._in_turn and not shown
                self._end_turn(port)
            case _:
                pass

    def _note_edit(self, event: ToolStarted | ToolEnded) -> None:
        """Note which files calls have changed."""
        if isinstance(event, ToolStarted):
            if event.name in EDIT_TOOLS:
                self._edits[event.call_id] = event.summary.partition(" ")[2]
        elif name := self._edits.pop(event.call_id, ""):
            self._changed_files += [name] if event.status is ToolStatus.OK else []

    def _end_turn(self, port: "SessionPort") -> None:
        """Close the questions of a session whose turn has ended; those of its sub-agents stay, and are announced where
        there is no place for them between turns.
        """
        for question in [*self._questions.values()]:
            if question.asker_id == port.session_id:
                self._close_question(question.task, "", "")
            elif question.port is port and not self.asks_between_turns and not question.task.done():
                question.task.cancel()
                self._begin_question(port, question.event, is_announced=True)

    def _begin_question(self, port: "SessionPort", event: ApprovalAsked, *, is_announced: bool) -> None:
        work = self._announce_and_wait(event) if is_announced else self._answer_approval(port, event)
        task = asyncio.get_running_loop().create_task(work)
        asked = self._questions[event.approval_id] = _OpenQuestion(
            port=port, event=event, asker_id=event.asker_id or port.session_id, task=task
        )

        def forget(_: object) -> None:
            if self._questions.get(event.approval_id) is asked:
                del self._questions[event.approval_id]

        task.add_done_callback(forget)

    def _close_question(self, task: "asyncio.Task[None]", style: str, text: str) -> None:
        """Close a question that nobody waits for any more, so that it does not take what is typed next."""
        if not task.done():
            task.cancel()
            self.show_closed(style, text)

    async def _announce_and_wait(self, event: ApprovalAsked) -> None:
        """Wait until the question is answered by a command, or withdrawn: that cancels the task."""
        self.announce(event)
        await asyncio.get_running_loop().create_future()

    async def _answer_approval(self, port: "SessionPort", event: ApprovalAsked) -> None:
        background_id = port.session_id if port.session_id != self._shown_session_id else ""
        scope = await self.ask_approval(event, background_id)
        if scope is AnswerScope.SESSION:
            self._allowed[event.subject] = len(self._changed_files)
        port.approvals.answer(event.approval_id, scope=scope, by="person")


def format_question(event: ApprovalAsked, background_id: str = "", changed: str = "") -> list[tuple[str, str]]:
    """Return styles and texts of an approval: what would run, where, and why it is asked about, the worst first.

    Of a very long command only the beginning and the end are shown; then the reason names the words that it is about.
    `changed` says what has changed since the same was allowed for the session.
    """
    shown = escape_confusable_characters(event.subject)
    reasons, hints = _split_reason(escape_confusable_characters(event.reason))
    is_dangerous = any(map(_is_dangerous, reasons))
    lines = [("question.danger" if is_dangerous else "question.asks", _format_title(event, background_id))]
    lines += [("question.subject", f"    {line}") for line in shorten_command(shown).split("\n")]
    if event.cwd:
        lines.append(("question.detail", "  " + tr("in {folder}", folder=escape_confusable_characters(event.cwd))))
    for reason in sorted(reasons, key=lambda one: not _is_dangerous(one)):
        lines.append(("failed" if _is_dangerous(reason) else "question.reason", f"  • {localize(reason)}"))
    notes = [changed, *map(localize, hints)]
    if is_long(shown):
        notes.append(tr("All of it, from another terminal: hermes approvals show {id}", id=event.approval_id))
    if event.no_covers:
        notes.append(
            tr(
                "A no holds until the session is closed, for: {what}",
                what=escape_confusable_characters(event.no_covers),
            )
        )
    return [*lines, *(("question.detail", f"  {note}") for note in notes if note)]


def _format_title(event: ApprovalAsked, background_id: str) -> str:
    """Return the question in one line."""
    values = event.reason.values if isinstance(event.reason, Localizable) else {}
    verb, _, rest = event.subject.partition(" ")
    if verb == "connect" and event.rule == "network":
        port = f":{values['port']}" if "port" in values and not rest.endswith(f":{values['port']}") else ""
        title = tr("Allow network access to {host}?", host=to_one_line(escape_confusable_characters(rest + port)))
    elif verb in _SITE_TITLES and event.rule == "site":
        title = tr(_SITE_TITLES[verb], host=to_one_line(escape_confusable_characters(rest.partition(" ")[0])))
    elif event.tool in _COMMAND_TOOLS and event.rule in _PLACE_TITLES and verb in _PLACE_TITLES[event.rule]:
        title = tr(_PLACE_TITLES[event.rule][verb])
    elif event.tool in _TITLES:
        title = tr(_TITLES[event.tool])
    else:
        title = tr("Allow {tool}?", tool=escape_confusable_characters(event.tool))
    if event.asker:
        name = to_one_line(escape_confusable_characters(event.asker), _MAX_NAME)
        title = tr("Sub-agent {name} asks. {question}", name=name, question=title)
    if background_id:
        return tr("The session {id}, which works in the background, asks. {question}", id=background_id, question=title)
    return title


def _split_reason(reason: str) -> tuple[list[str], list[str]]:
    """Return the reasons that were joined into one, and the hints behind them."""
    if isinstance(reason, Localizable) and reason.template in _JOINED:
        first, second = (str(reason.values[name]) for name in ("first_said", "second_said"))
        reasons, hints = _split_reason(first)
        if reason.template == _JOINED[1]:
            return reasons, [*hints, second]
        more, last = _split_reason(second)
        return [*reasons, *more], [*hints, *last]
    return [reason], []


def _is_dangerous(reason: str) -> bool:
    """Return whether a reason is about what cannot be taken back, keys, or power over the machine.

    Only how it is shown depends on that. Of our own texts the templates are looked at, so that no name decides.
    """
    if not isinstance(reason, Localizable):
        return bool(_DANGEROUS.search(reason))
    values = reason.values.items()
    inner = [one for name, one in values if isinstance(one, Localizable) or (name in _SAID and isinstance(one, str))]
    return bool(_DANGEROUS.search(reason.template)) or any(_is_dangerous(str(one)) for one in inner)


def list_risky_parts(event: ApprovalAsked) -> list[str]:
    """Return the parts of a dangerous command that its question is about, as far as the wider answers name them; none
    where that would be all of it, or where nothing in it is dangerous.
    """
    reasons, _ = _split_reason(escape_confusable_characters(event.reason))
    if event.tool not in _COMMAND_TOOLS or not any(map(_is_dangerous, reasons)):
        return []
    subject = escape_confusable_characters(event.subject)
    named = _COVERED.findall(escape_confusable_characters(f"{event.session_covers} {event.always_covers}"))
    return [part for part in dict.fromkeys(named) if part in subject and part != subject]


def list_answers(event: ApprovalAsked) -> dict[AnswerScope, str]:
    """Return the answers that can be given, no first, each with what it covers beyond this call."""
    once = event.once_covers if event.once_covers != _THIS_CALL else ""
    answers = {AnswerScope.DENY: "", AnswerScope.ONCE: once}
    wider = {AnswerScope.SESSION: event.session_covers, AnswerScope.ALWAYS: event.always_covers}
    answers |= {scope: covers for scope, covers in wider.items() if covers}
    until = tr(" (until those files change)")
    return {
        scope: localize(escape_confusable_characters(covers)).replace(WHILE_UNCHANGED, until)
        for scope, covers in answers.items()
    }


def _describe_closing(event: ApprovalAnswered) -> tuple[str, str]:
    """Return the style and the words that say by whom a question was closed."""
    if event.by == "person":
        answer = tr("allowed") if event.allowed else tr("refused")
        return "notice", tr("It was answered elsewhere: {answer}.", answer=answer)
    if event.by == _WITHDRAWN:
        return "notice", tr("The question was withdrawn.")
    return "warning", tr("The question had no answer in time, which means no.")
