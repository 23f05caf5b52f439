"""A session as an editor sees it: messages, calls and states that are updated by their ids, written as updates of
version 1 of the protocol.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from msgspec import structs

from hermes.acp.calls import CallProjection, Update, escape_links
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    FellBack,
    Level,
    MessageAppended,
    Notice,
    Refused,
    Retrying,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from hermes.core.messages import Message, Role, ToolCallPart, ToolResultPart
from hermes.core.stream import ReasoningDelta, TextDelta
from hermes.i18n.messages import localize, tr
from hermes.util.text import strip_control_characters, strip_terminal_controls, to_one_line

Send = Callable[[Update], None]
CallT = TypeVar("CallT", ToolCallPart, ToolResultPart, ToolStarted, ToolEnded)
_LEVELS = {Level.INFO: "info", Level.WARNING: "warning", Level.ERROR: "error"}
_PRIORITY = "medium"
_PLAN_STATES = {"completed": "completed", "cancelled": "completed", "in_progress": "in_progress"}


class TextFilter(Protocol):
    """Filters the text of an answer."""

    def feed_text(self, text: str) -> str:
        """Take more text, and return what can go out now."""
        ...

    def flush_text(self) -> str:
        """Return the text that was held back."""
        ...


class SessionProjection:
    """Follows the events of one session. `is_own_turn` tells whether a turn's words were typed in this editor."""

    def __init__(
        self,
        send: Send,
        calls: CallProjection,
        make_filter: Callable[[], TextFilter],
        is_own_words: Callable[[str], bool],
        *,
        shows_notices: bool,
    ) -> None:
        self._send = send
        self._calls = calls
        self._make_filter = make_filter
        self._is_own_words = is_own_words
        self._shows_notices = shows_notices
        self._filter = make_filter()
        self._thought_filter = make_filter()
        self._message_number = 0
        self._turn_id = ""
        self._known: dict[str, list[Update]] = {}
        """The calls that were shown in this turn, each with the changes of files that were shown of it."""
        self._unanswered: dict[str, str] = {}
        """The calls whose results are still to come, each with the state in which it has ended; empty while it runs."""
        self._has_text = False
        self._uses: dict[str, int] = {}
        """How often a model has used an id for a call: some begin with the same ones in every answer."""

    def name_call(self, call_id: str) -> str:
        """Return the id by which the editor knows the newest call of this id."""
        uses = self._uses.get(call_id) or self._count_call(call_id)
        return call_id if uses == 1 else f"{call_id}~{uses}"

    def list_edits(self, call_id: str) -> Sequence[Update]:
        """Return the changes of files that were shown of a call; `call_id` is the editor's name for it."""
        return self._known.get(call_id, ())

    def show_event(self, event: Event) -> None:
        """Send what the event changes."""
        match event:
            case TurnStarted() | TurnResumed():
                self._begin_turn(event)
            case TextDelta():
                self._show_text(self._filter.feed_text(event.text))
            case ReasoningDelta():
                self._send_chunk("agent_thought_chunk", self._thought_filter.feed_text(event.text))
            case MessageAppended():
                self._show_message(event.message)
            case ToolStarted():
                self._upsert_call(self._calls.describe_start(self._rename_call(event)))
            case ToolEnded():
                self._end_call(self._rename_call(event))
            case ApprovalAsked() | ApprovalAnswered():
                pass  # questions are asked where they are answered
            case TurnEnded():
                self._end_turn(event)
            case _:
                self._show_notice_of(event)

    def show_plan(self, steps: Sequence[tuple[str, str]]) -> None:
        """Send the steps of the plan: each with its state."""
        entries = [
            {"content": self._clean(content), "priority": _PRIORITY, "status": _PLAN_STATES.get(state, "pending")}
            for content, state in steps
        ]
        self._send({"sessionUpdate": "plan", "entries": entries})

    def show_own_text(self, text: str) -> None:
        """Send a text of Hermes' own, such as a command's output, as a message."""
        if text.strip():
            self._message_number += 1
            self._send_chunk("agent_message_chunk", text)
            self._message_number += 1

    def show_notice(self, level: Level, text: str) -> None:
        """Send a line beside the conversation; where the editor shows none, as a thought."""
        said = strip_control_characters(localize(text)).strip()
        if not said:
            return
        if self._shows_notices:
            title, _, rest = said.partition("\n")
            update: Update = {"sessionUpdate": "notice", "severity": _LEVELS[level], "title": title}
            self._send({**update, "description": rest} if rest else update)
        else:
            self._send_chunk("agent_thought_chunk", f"\n\n{escape_links(said)}\n\n")

    def show_history(self, messages: Sequence[Message]) -> None:
        """Send the messages of a session that is loaded, as they would have come."""
        for index, message in enumerate(messages):
            if message.synthetic or message.role is Role.TOOL:
                continue
            self._message_number += 1
            if message.role is Role.USER:
                self._show_past_words(message)
            else:
                behind = messages[index + 1] if index + 1 < len(messages) else message
                self._show_past_answer(message, {one.call_id: one for one in behind.tool_results()})

    def _show_past_words(self, message: Message) -> None:
        self._send_chunk("user_message_chunk", message.text)
        for picture in message.images():
            if picture.data:
                block = {"type": "image", "data": picture.data, "mimeType": picture.media_type}
                self._send_block("user_message_chunk", block)

    def _show_past_answer(self, message: Message, results: dict[str, ToolResultPart]) -> None:
        self._send_chunk("agent_thought_chunk", self._clean(message.reasoning))
        self._send_chunk("agent_message_chunk", self._clean(message.text))
        for call in message.tool_calls():
            self._count_call(call.call_id)
            update = self._calls.describe_past_call(self._rename_call(call), results.get(call.call_id))
            update["title"] = self._clean(update["title"])
            self._send({"sessionUpdate": "tool_call", **update})

    def _begin_turn(self, event: TurnStarted | TurnResumed) -> None:
        self._turn_id = event.turn_id
        self._known.clear()
        self._unanswered.clear()
        if event.text and not self._is_own_words(event.text):
            self._message_number += 1
            self._send_chunk("user_message_chunk", event.text)
        if isinstance(event, TurnResumed):
            said = to_one_line(strip_control_characters(event.text), 100)
            self.show_notice(Level.WARNING, tr("Going on with the turn that was cut off: {text}", text=said))
        self._message_number += 1

    def _show_text(self, text: str) -> None:
        self._has_text = self._has_text or bool(text)
        self._send_chunk("agent_message_chunk", text)

    def _show_message(self, message: Message) -> None:
        if message.role is Role.ASSISTANT:
            self._flush_texts()
            for call in message.tool_calls():
                self._count_call(call.call_id)
                update = self._calls.describe_call(self._rename_call(call))
                update["title"] = self._clean(update["title"])
                self._known[update["toolCallId"]] = [one for one in update.get("content", ()) if one["type"] == "diff"]
                self._unanswered[update["toolCallId"]] = ""
                self._send({"sessionUpdate": "tool_call", **update})
            self._message_number += 1
        elif message.role is Role.TOOL:
            for result in message.tool_results():
                named = self._rename_call(result)
                update = self._calls.describe_result(named, self.list_edits(named.call_id))
                if state := self._unanswered.pop(named.call_id, ""):
                    update.setdefault("status", state)
                self._upsert_call(update)

    def _end_call(self, event: ToolEnded) -> None:
        """Send the state in which a call has ended, together with its result where that follows: there are editors that
        forget a call once it is completed, and take its result for a call that they do not know.
        """
        update = self._calls.describe_end(event)
        if event.call_id in self._unanswered:
            self._unanswered[event.call_id] = update["status"]
        else:
            self._upsert_call(update)

    def _end_turn(self, event: TurnEnded) -> None:
        self._flush_texts()
        if event.text and not self._has_text:
            self._show_text(self._clean(event.text))
        self._has_text = False
        self._message_number += 1

    def _count_call(self, call_id: str) -> int:
        uses = self._uses[call_id] = self._uses.get(call_id, 0) + 1
        return uses

    def _rename_call(self, part: CallT) -> CallT:
        """Return a call, or an event or result of one, with the id by which the editor knows it."""
        return structs.replace(part, call_id=self.name_call(part.call_id))

    def _flush_texts(self) -> None:
        """Send what was held back of an answer and of its thoughts, and begin with the next."""
        self._send_chunk("agent_thought_chunk", self._thought_filter.flush_text())
        self._show_text(self._filter.flush_text())
        self._filter, self._thought_filter = self._make_filter(), self._make_filter()

    def _clean(self, text: str) -> str:
        """Return a whole text as it may be shown."""
        shown = self._make_filter()
        return shown.feed_text(text) + shown.flush_text()

    def _upsert_call(self, update: Update) -> None:
        """Send a call's new state. A call that was never announced, such as one of code, is announced by that."""
        known = update["toolCallId"] in self._known
        if "title" in update:
            update["title"] = self._clean(update["title"])
        if not known:
            self._known[update["toolCallId"]] = []
            update.setdefault("title", tr("A call"))
        self._send({"sessionUpdate": "tool_call_update" if known else "tool_call", **update})

    def _show_notice_of(self, event: Event) -> None:
        match event:
            case Notice():
                self.show_notice(event.level, event.text)
            case Refused():
                subject = to_one_line(strip_control_characters(event.subject))
                reason = localize(strip_control_characters(event.reason))
                said = tr("refused: {subject} ({reason})", subject=subject, reason=reason)
                self.show_notice(Level.WARNING, said)
            case FellBack():
                model = f"{event.model} ({event.provider})"
                said = tr("{why} Going on with {model}.", why=localize(event.reason), model=model)
                self.show_notice(Level.WARNING, said)
            case Retrying():
                self.show_notice(Level.WARNING, event.message)
            case _:
                pass

    @property
    def _message_id(self) -> str:
        return f"{self._turn_id or 'message'}-{self._message_number}"

    def _send_chunk(self, kind: str, text: str) -> None:
        shown = strip_terminal_controls(text)  # some editors are terminals
        if shown:
            self._send_block(kind, {"type": "text", "text": shown})

    def _send_block(self, kind: str, block: Update) -> None:
        self._send({"sessionUpdate": kind, "content": block, "messageId": f"{self._message_id}-{kind.split('_')[1]}"})


def format_moment(seconds: float) -> str:
    """Return a moment as the protocol writes it: ISO 8601 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
