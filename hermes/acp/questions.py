"""Questions to the person at an editor: about calls, each bound to the exact call, and those of the model."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import msgspec
from msgspec import Struct

from hermes.acp import protocol
from hermes.acp.calls import Update, make_question_call
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
_OPTIONS = {
    AnswerScope.ONCE: ("allow_once", "allow_once", N_("Allow once")),
    AnswerScope.ALWAYS: ("always", "allow_always", N_("Allow always")),
    AnswerScope.SESSION: ("session", "allow_always", N_("Allow for this session")),
    AnswerScope.DENY: ("reject_once", "reject_once", N_("No")),
}
"""Each answer with its id, its kind and its label. Editors with labels of their own keep the last option of a kind:
of the two lasting ones that is the narrower. An editor that reads ids, not kinds, knows those of a single call.
"""


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


class CallNames(Protocol):
    """What an editor was shown of calls."""

    def name_call(self, call_id: str) -> str:
        """Return the id by which the editor knows the newest call of this id."""
        ...

    def list_edits(self, call_id: str) -> Sequence[Update]:
        """Return the changes of files that were shown of a call; `call_id` is the editor's name for it."""
        ...


class EditorQuestions:
    """Asks the approvals of one session in its editor. `close` ends its tasks."""

    def __init__(self, peer: RpcPeer, port: SessionPort, view: CallNames) -> None:
        self._peer = peer
        self._port = port
        self._view = view
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
        left_out = set()
        if not event.session_covers:
            left_out.add(AnswerScope.SESSION)
        if not event.always_covers:
            left_out.add(AnswerScope.ALWAYS)
        offered = {option[0]: (scope, option) for scope, option in _OPTIONS.items() if scope not in left_out}
        call_id = self._view.name_call(event.call_id)
        params = {
            "sessionId": self._port.session_id,
            "toolCall": make_question_call(event, call_id, self._view.list_edits(call_id)),
            "options": [
                {"optionId": option_id, "name": tr(label), "kind": kind}
                for _, (option_id, kind, label) in offered.values()
            ],
        }
        try:
            raw = await self._peer.request("session/request_permission", params, None)
            chosen = msgspec.json.decode(raw, type=protocol.PermissionResult).outcome
        except (RpcError, msgspec.MsgspecError):
            answer(scope=AnswerScope.DENY, by=_NOBODY)
            return
        if chosen.outcome != "selected" or chosen.option_id not in offered:
            answer(scope=AnswerScope.DENY, by=_NOBODY)
        else:
            answer(scope=offered[chosen.option_id][0], by=_PERSON)
