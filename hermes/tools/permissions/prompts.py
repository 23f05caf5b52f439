"""Puts the gate's questions to the person, for calls and for what a command in a sandbox wants while it runs."""

import asyncio
import os
from collections.abc import Callable

from msgspec import Struct, structs

from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, Refused
from hermes.core.outcomes import AnswerScope
from hermes.execution.base import Permit
from hermes.safety.shell.findings import Verdict
from hermes.tools.permissions.gate import (
    NO_PERSON,
    NOBODY,
    TIMED_OUT,
    WITHDRAWN,
    Answer,
    ApprovalRequest,
    Approver,
    Decision,
    Gate,
)
from hermes.tools.session import ToolContext

Emit = Callable[[Event], None]
_AT_MOST = 3
"""Questions about one call, when what it would touch changes while the person thinks."""
_BECAUSE = {NOBODY: "nobody could be asked", TIMED_OUT: "no answer came in time", "person": "the person said no"}
_USUAL = (80, 443)
"""The ports that a host's name stands for in the settings."""
_KEEPS_CHANGING = "what it would touch kept changing while it was asked about"


class Leave(Struct, frozen=True):
    """What came of a decision: whether the call may run, what was decided in the end, and the last answer."""

    given: bool
    decision: Decision
    answer: Answer | None = None
    asked: bool = False


class Questions:
    """Asks for one session. Without an approver nobody can be asked, and the answer is no."""

    def __init__(self, gate: Gate, approver: Approver | None) -> None:
        self.gate = gate
        self._approver = approver
        self._hinted: set[str] = set()

    async def settle(
        self, call_id: str, tool: str, decision: Decision, decide: Callable[[], Decision], emit: Emit
    ) -> Leave:
        """Ask where the decision asks. A yes is for what was shown; what has changed since is asked about again."""
        asked = False
        for _ in range(_AT_MOST):
            if decision.verdict is not Verdict.ASK:
                return Leave(decision.verdict is Verdict.ALLOW, decision, None, asked)
            answer, asked = await self.ask(call_id, tool, decision, emit), True
            if not answer.allowed:
                return Leave(False, decision, answer, asked)
            now = decide()
            if now == decision or now.verdict is Verdict.ALLOW:
                return Leave(True, decision, answer, asked)
            decision = now
        if decision.verdict is Verdict.ASK:
            decision = structs.replace(decision, verdict=Verdict.DENY, reason=_KEEPS_CHANGING)
        return Leave(False, decision, None, asked)

    async def ask(self, call_id: str, tool: str, decision: Decision, emit: Emit) -> Answer:
        """The person's answer; what it covers beyond the call is remembered. Raises HermesError when it cannot be."""
        if self._approver is None:
            return Answer(scope=AnswerScope.DENY, by=NOBODY)
        shown: list[str] = []

        def show(question: ApprovalRequest) -> None:
            shown.append(question.approval_id)
            self._hinted.add(decision.hint)
            emit(_asked(question))

        try:
            answer = await self._approver.ask(self._request(call_id, tool, decision), show)
        except asyncio.CancelledError:
            for approval_id in shown[:1]:
                emit(ApprovalAnswered(approval_id, False, WITHDRAWN))
            raise
        for approval_id in shown[:1]:
            emit(ApprovalAnswered(approval_id, answer.allowed, answer.by))
        if answer.allowed:
            await self.gate.keep(decision, answer.scope)
        elif answer.by not in NO_PERSON:
            self.gate.refuse(decision)
        return answer

    def _request(self, call_id: str, tool: str, decision: Decision) -> ApprovalRequest:
        fresh = decision.hint and decision.hint not in self._hinted
        return ApprovalRequest(
            approval_id=f"approval_{os.urandom(8).hex()}",
            call_id=call_id,
            tool=tool,
            subject=decision.subject,
            rule=decision.rule,
            reason=f"{decision.reason}. {decision.hint}" if fresh else decision.reason,
            cwd=decision.cwd,
            seal=decision.seal,
            once_covers=decision.covers(AnswerScope.ONCE),
            session_covers=decision.covers(AnswerScope.SESSION),
            always_covers=decision.covers(AnswerScope.ALWAYS),
            no_covers=", ".join(f"`{one}`" for one in decision.sticks),
        )


class CallDoor:
    """The `Door` of one call's command. One question at a time, and one for all that want the same."""

    def __init__(self, call_id: str, tool: str, questions: Questions, context: ToolContext, emit: Emit) -> None:
        self._about = (call_id, tool)
        self._gate = questions.gate
        self._questions = questions
        self._context = context
        self._emit = emit
        self._turn = asyncio.Lock()
        self._permits: dict[str, Permit] = {}
        """What came of each question."""

    async def connect(self, host: str, port: int, name: str = "") -> Permit:
        """Whether the command may reach this host, to which `name` led if it is an address."""
        named = host if port in _USUAL or ":" in host else f"{host}:{port}"
        setting = f"security.allowed_hosts: [{named}]"
        return await self._may(lambda: self._gate.connection(host, port, self._context, name), setting)

    async def write(self, path: str) -> Permit:
        """Whether the command may write this path, and below it."""
        setting = f"terminal.sandbox.writable: [{path}]"
        return await self._may(lambda: self._gate.opening(path, self._context), setting)

    async def _may(self, decide: Callable[[], Decision], setting: str) -> Permit:
        async with self._turn:
            decision = decide()
            if decision.verdict is Verdict.ALLOW:
                return Permit(True)
            if (known := self._permits.get(decision.subject)) is not None:
                return known
            why, unasked = decision.reason, False
            if decision.verdict is Verdict.ASK:
                answer = await self._questions.ask(*self._about, decision, self._emit)
                if answer.allowed:
                    permit = self._permits[decision.subject] = Permit(True, once=answer.scope is AnswerScope.ONCE)
                    return permit
                why, unasked = because(answer), answer.by == NOBODY
            permit = self._permits[decision.subject] = Permit(False, why)
            self._emit(self._told(decision, why, setting if unasked else ""))
            return permit

    def _told(self, decision: Decision, why: str, setting: str) -> Refused:
        """What the person sees; where nobody could be asked, with the setting that would have allowed it."""
        reason = decision.reason if why == decision.reason else f"{decision.reason}, and {why}"
        if setting:
            reason += f"; {setting} would allow it"
        return Refused(*self._about, decision.subject, reason, decision.pattern if setting else "")


def because(answer: Answer) -> str:
    """Why it is no, in words."""
    return _BECAUSE.get(answer.by) or f"{answer.by} said no"


def _asked(request: ApprovalRequest) -> ApprovalAsked:
    return ApprovalAsked(
        approval_id=request.approval_id,
        call_id=request.call_id,
        tool=request.tool,
        subject=request.subject,
        rule=request.rule,
        reason=request.reason,
        cwd=request.cwd,
        once_covers=request.once_covers,
        session_covers=request.session_covers,
        always_covers=request.always_covers,
        no_covers=request.no_covers,
    )
