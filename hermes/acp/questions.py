"""Questions to the person at an editor: about calls, each bound to the exact call, and those of the model."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec import Struct

from hermes.acp import protocol
from hermes.acp.calls import Update, describe_question, make_question_call, make_text_content
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, TurnEnded
from hermes.core.json_rpc import RpcError
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import N_, tr
from hermes.ipc.rpc_peer import RpcPeer
from hermes.sessions.port import SessionPort
from hermes.util.cancellation import cancel_tasks
from hermes.util.text import strip_control_characters

_PERSON, _NOBODY, _WITHDRAWN = "person", "nobody there to ask", "withdrawn"
_ANSWER = "answer"
_MAX_CHOICES, _MAX_DIGITS = 200, 3
_LABELS = {
    AnswerScope.ONCE: ("allow_once", N_("Allow once")),
    AnswerScope.SESSION: ("allow_always", N_("Allow for this session")),
    AnswerScope.ALWAYS: ("allow_always", N_("Allow always")),
    AnswerScope.DENY: ("reject_once", N_("No")),
}


class _OpenQuestion(Struct, frozen=True):
    task: "asyncio.Task[None]"
    ends_with_turn: bool


class EditorForms:
    """Asks a person for a text or a choice, where the editor can; else nobody is there to answer."""

    def __init__(self, peer: RpcPeer, capabilities: protocol.ClientCapabilities) -> None:
        self._peer = peer
        self.can_ask = capabilities.asks_forms
        """Whether the editor can ask."""
        self.session_id = ""
        """The session that asks, once it is known."""

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Return one of the choices, or the person's own words where there are none; an empty text where they closed
        the question, None when nobody is there to answer.
        """
        if not self.can_ask or not self.session_id or len(choices) > _MAX_CHOICES:
            return None
        params = {
            "mode": "form",
            "sessionId": self.session_id,
            "message": strip_control_characters(question),
            "requestedSchema": _make_form(choices),
        }
        try:
            raw = await self._peer.request("elicitation/create", params, None)
            result = msgspec.json.decode(raw, type=protocol.ElicitationResult)
        except (RpcError, msgspec.MsgspecError):
            return None
        given = (result.content or {}).get(_ANSWER) if result.action == "accept" else None
        return _read_form(given, choices)


def _make_form(choices: Sequence[str]) -> Update:
    """Return the form of a question: one of the choices, or a text where there are none."""
    options = [{"const": str(number), "title": strip_control_characters(one)} for number, one in enumerate(choices)]
    field: Update = {"type": "string", "title": tr("Answer")}
    if options:
        field["oneOf"] = options
    return {"type": "object", "properties": {_ANSWER: field}, "required": [_ANSWER]}


def _read_form(given: object, choices: Sequence[str]) -> str:
    """Return what was filled in; empty where that is no answer."""
    if not isinstance(given, str):
        return ""
    if not choices:
        return given
    number = int(given) if given.isdecimal() and len(given) <= _MAX_DIGITS else len(choices)
    return choices[number] if number < len(choices) else ""


class EditorQuestions:
    """Asks the approvals of one session in its editor. `close` ends its tasks."""

    def __init__(self, peer: RpcPeer, port: SessionPort, name_call: Callable[[str], str]) -> None:
        self._peer = peer
        self._port = port
        self._name_call = name_call
        self._open: dict[str, _OpenQuestion] = {}

    def handle_event(self, event: Event) -> None:
        """Ask what is asked, and withdraw what has its answer from elsewhere."""
        match event:
            case ApprovalAsked():
                task = asyncio.get_running_loop().create_task(self._ask_approval(event), name="ask in the editor")
                self._open[event.approval_id] = _OpenQuestion(task, not event.asker)
                task.add_done_callback(lambda _: self._open.pop(event.approval_id, None))
            case ApprovalAnswered() if event.approval_id in self._open:
                self._open[event.approval_id].task.cancel()
            case TurnEnded():
                for one in self._open.values():
                    if one.ends_with_turn:
                        one.task.cancel()
            case _:
                pass

    def refuse_all(self) -> None:
        """Answer every open question with a no of nobody's: what asked is cancelled."""
        for approval_id in [*self._open]:
            self._port.approvals.answer(approval_id, scope=AnswerScope.DENY, by=_WITHDRAWN)

    async def close(self) -> None:
        """Withdraw the questions that are open."""
        await cancel_tasks(one.task for one in [*self._open.values()])

    async def _ask_approval(self, event: ApprovalAsked) -> None:
        """Ask, and hand on the answer. It is for this question alone: what changes meanwhile is asked about again."""
        answer = partial(self._port.approvals.answer, event.approval_id)
        offered = {AnswerScope.ONCE: True, AnswerScope.SESSION: bool(event.session_covers)}
        offered |= {AnswerScope.ALWAYS: bool(event.always_covers), AnswerScope.DENY: True}
        scopes = [scope for scope, is_offered in offered.items() if is_offered]
        params = {
            "sessionId": self._port.session_id,
            "toolCall": {
                **make_question_call(event, self._name_call(event.call_id)),
                "content": [make_text_content(describe_question(event))],
            },
            "options": [
                {"optionId": scope.value, "name": tr(_LABELS[scope][1]), "kind": _LABELS[scope][0]} for scope in scopes
            ],
        }
        try:
            raw = await self._peer.request("session/request_permission", params, None)
            chosen = msgspec.json.decode(raw, type=protocol.PermissionResult).outcome
        except (RpcError, msgspec.MsgspecError):
            answer(scope=AnswerScope.DENY, by=_NOBODY)
            return
        found = next((scope for scope in scopes if scope.value == chosen.option_id), None)
        if chosen.outcome != "selected" or found is None:
            answer(scope=AnswerScope.DENY, by=_NOBODY)
        else:
            answer(scope=found, by=_PERSON)
