"""Tool calls as an editor shows them: their kind, title, places, changes and output."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from hermes.core.events import ApprovalAsked, ToolEnded, ToolStarted
from hermes.core.messages import ToolCallPart, ToolResultPart, ToolStatus
from hermes.i18n.messages import localize, tr
from hermes.runtime.mailbox import fence_attached_text
from hermes.util.text import escape_confusable_characters, strip_control_characters, to_one_line

Update = dict[str, Any]
_KINDS = {
    "read_file": "read",
    "write_file": "edit",
    "patch": "edit",
    "search_files": "search",
    "session_search": "search",
    "tool_search": "search",
    "terminal": "execute",
    "process": "execute",
    "execute_code": "execute",
    "web_search": "fetch",
    "web_extract": "fetch",
    "browser_navigate": "fetch",
    "todo": "think",
}
_COMMAND_TOOL = "terminal"
_STATES = {ToolStatus.OK: "completed"}
_MAX_TITLE = 200
_MAX_QUESTION = 4_000
"""The most characters of a question's title: some editors ask with nothing else."""
_MAX_SHOWN = 100_000
"""The most characters of a result that an editor is sent: it draws all of them."""


class ShownEdit(Protocol):
    """A file before and after a change."""

    @property
    def path(self) -> str:
        """Its absolute path."""
        ...

    @property
    def before(self) -> str | None:
        """Its text before; None for a new file."""
        ...

    @property
    def after(self) -> str:
        """Its text after."""
        ...


class CallPlaces(Protocol):
    """What is known of the files of a session's calls."""

    @property
    def cwd(self) -> str:
        """The folder in which commands run now."""
        ...

    def resolve_path(self, path: str) -> str:
        """Return the absolute path that a call means."""
        ...

    def preview_edits(self, name: str, arguments: str) -> Sequence[ShownEdit]:
        """Return what a call is about to do to files."""
        ...


class _PlaceArguments(Struct):
    path: str = ""
    offset: int = 0
    command: str = ""


class CallProjection:
    """Makes the updates about calls. `shows_terminals`: the editor draws output that it has not run."""

    def __init__(self, places: CallPlaces, *, shows_terminals: bool) -> None:
        self._places = places
        self._shows_terminals = shows_terminals
        self._exit_codes: dict[str, int] = {}
        """Those of commands whose output is still to be shown: it comes with their results."""

    def describe_call(self, call: ToolCallPart) -> Update:
        """Return a call that is about to be decided on, with the changes of files that it wants."""
        about = _read_arguments(call.arguments)
        content = [_make_diff(one) for one in self._places.preview_edits(call.name, call.arguments)]
        found: Update = {
            "toolCallId": call.call_id,
            "title": _make_title(about.command or about.path, call.name),
            "name": _clean_name(call.name),
            "kind": _KINDS.get(call.name, "other"),
            "status": "pending",
            "rawInput": _decode_input(call.arguments),
        }
        if content:
            found["content"] = content
        if about.path and call.name != "terminal":
            found["locations"] = [self._make_location(about)]
        return found

    def describe_start(self, event: ToolStarted) -> Update:
        """Return a call that runs now."""
        found: Update = {
            "toolCallId": event.call_id,
            "status": "in_progress",
            "kind": _KINDS.get(event.name, "other"),
            "title": _make_title(
                event.summary if event.name in _KINDS else f"{event.name} {event.summary}", event.name
            ),
        }
        if self._is_terminal(event.name):
            found["content"] = [{"type": "terminal", "terminalId": event.call_id}]
            found["_meta"] = {"terminal_info": {"terminal_id": event.call_id, "cwd": self._places.cwd}}
        return found

    def describe_end(self, event: ToolEnded) -> Update:
        """Return a call that has ended; what it gave comes with its result."""
        found: Update = {
            "toolCallId": event.call_id,
            "status": "failed" if event.failed else _STATES.get(event.status, "failed"),
        }
        if self._is_terminal(event.name):
            self._exit_codes[event.call_id] = event.code
        return found

    def describe_result(self, result: ToolResultPart, edits: Sequence[Update] = ()) -> Update:
        """Return the whole result of a call; `edits` are the changes that were shown before."""
        text = strip_control_characters(result.text[:_MAX_SHOWN])
        found: Update = {"toolCallId": result.call_id}
        if result.status is not ToolStatus.OK:
            found["status"] = "failed"
        if self._is_terminal(result.name):
            name, data = result.call_id, text.replace("\n", "\r\n")
            left = {"terminal_id": name, "exit_code": self._exit_codes.pop(name, 0), "signal": None}
            found["_meta"] = {"terminal_output": {"terminal_id": name, "data": data}, "terminal_exit": left}
            return found
        shown = [] if edits and result.status is ToolStatus.OK else [make_text_content(fence_attached_text(text))]
        pictures = [
            {"type": "content", "content": {"type": "image", "data": one.data, "mimeType": one.media_type}}
            for one in result.images
            if one.data
        ]
        found["content"] = [*edits, *shown, *pictures]
        return found

    def describe_past_call(self, call: ToolCallPart, result: ToolResultPart | None) -> Update:
        """Return a call of a session that is loaded."""
        about = _read_arguments(call.arguments)
        found: Update = {
            "toolCallId": call.call_id,
            "title": _make_title(about.command or about.path, call.name),
            "name": _clean_name(call.name),
            "kind": _KINDS.get(call.name, "other"),
            "status": "failed" if result is None else _STATES.get(result.status, "failed"),
            "rawInput": _decode_input(call.arguments),
        }
        if about.path and call.name != "terminal":
            found["locations"] = [self._make_location(about)]
        if result is not None:
            text = strip_control_characters(result.text[:_MAX_SHOWN])
            found["content"] = [make_text_content(fence_attached_text(text))]
        return found

    def _is_terminal(self, name: str) -> bool:
        return self._shows_terminals and name == _COMMAND_TOOL

    def _make_location(self, about: _PlaceArguments) -> Update:
        found: Update = {"path": self._places.resolve_path(about.path)}
        return {**found, "line": about.offset} if 0 < about.offset < 1 << 31 else found


def escape_links(text: str) -> str:
    """Return a text of names that others chose as Markdown in which nothing is a picture or a link."""
    return text.replace("](", "]\\(").replace("![", "!\\[").replace("<", "\\<")


def describe_question(event: ApprovalAsked) -> str:
    """Return in words what a question is about: what would happen, where, why it is asked, what a wider yes covers."""

    def shown(text: str) -> str:
        return escape_links(localize(escape_confusable_characters(text)))

    lines = [tr("Sub-agent “{name}” asks:", name=to_one_line(shown(event.asker), 60))] if event.asker else []
    lines.append(fence_attached_text(escape_confusable_characters(event.subject)))
    if event.cwd:
        lines.append(tr("in {folder}", folder=shown(event.cwd)))
    lines.append(shown(event.reason))
    if event.session_covers:
        lines.append(tr("“For this session” allows, until it is closed: {what}", what=shown(event.session_covers)))
    if event.always_covers:
        lines.append(tr("“Always” allows, from now on: {what}", what=shown(event.always_covers)))
    if event.no_covers:
        lines.append(tr("A no holds until the session is closed, for: {what}", what=shown(event.no_covers)))
    return "\n\n".join(lines)


def make_question_call(event: ApprovalAsked, call_id: str, edits: Sequence[Update]) -> Update:
    """Return the call that a question is about, with its changes of files and what there is to know. Some editors ask
    with the title alone: it holds the whole subject, and why there is a question.
    """
    subject, reason = escape_confusable_characters(event.subject), escape_confusable_characters(event.reason)
    title = f"{subject} ({escape_links(localize(reason))})" if reason else subject
    return {
        "toolCallId": call_id,
        "title": to_one_line(strip_control_characters(title), _MAX_QUESTION),
        "kind": _KINDS.get(event.tool, "other"),
        "status": "pending",
        "content": [*edits, make_text_content(describe_question(event))],
        "locations": [{"path": one["path"]} for one in edits],
    }


def make_text_content(text: str) -> Update:
    """Return a text as the content of a call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def _make_diff(edit: ShownEdit) -> Update:
    return {"type": "diff", "path": edit.path, "oldText": edit.before, "newText": edit.after}


def _make_title(text: str, name: str) -> str:
    return to_one_line(strip_control_characters(text), _MAX_TITLE) or _clean_name(name)


def _clean_name(name: str) -> str:
    """Return a tool's name, which a model may have made up, as it may be shown."""
    return to_one_line(strip_control_characters(name), _MAX_TITLE)


def _read_arguments(raw: str) -> _PlaceArguments:
    try:
        return msgspec.json.decode(raw, type=_PlaceArguments)
    except (msgspec.MsgspecError, RecursionError):
        return _PlaceArguments()


def _decode_input(raw: str) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return raw
