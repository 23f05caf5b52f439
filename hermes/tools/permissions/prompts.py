"""Asks a person for approval: for calls, and for what a command in a sandbox wants while it runs."""

import asyncio
import os
from collections.abc import Callable
from functools import partial

from msgspec import Struct, structs

from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, Refused
from hermes.core.outcomes import AnswerScope
from hermes.execution.base import DeniedPath, Permit
from hermes.i18n.messages import N_
from hermes.safety.shell.findings import Verdict
from hermes.tools.permissions import gate
from hermes.tools.session import ToolContext
from hermes.util.localizable import join_localizable
from hermes.util.text import escape_line_breaks, quote_setting

Emit = Callable[[Event], None]
Decide = Callable[[], gate.PermissionDecision]
_MAX_QUESTIONS = 3
"""The most questions about one call, when what it would touch changes while the person thinks."""
_REFUSAL_REASONS = {
    gate.NOBODY: N_("nobody could be asked"),
    gate.TIMED_OUT: N_("no answer came in time"),
    "person": N_("the person said no"),
}
_DEFAULT_PORTS = (80, 443)
"""The ports for which the settings name a host alone."""
_KEEPS_CHANGING = "what it would touch kept changing while it was asked about"


class ApprovalOutcome(Struct, frozen=True):
    """The outcome of a decision: whether the call may run, the final decision, and the last answer."""

    allowed: bool
    decision: gate.PermissionDecision
    answer: gate.ApprovalAnswer | None = None
    asked: bool = False


class ApprovalPrompter:
    """Asks the person for one session. Without an approver nobody can be asked, and the answer is no."""

    def __init__(self, decider: gate.PermissionGate, approver: gate.Approver | None) -> None:
        self.gate = decider
        self._approver = approver
        self._shown_hints: set[str] = set()

    async def resolve_decision(
        self, call_id: str, tool: str, decision: gate.PermissionDecision, decide: Decide, emit: Emit
    ) -> ApprovalOutcome:
        """Ask the person where the decision asks, and return whether the call may run.

        A yes is for what was shown; what has changed since is asked about again.
        """
        asked = False
        for _ in range(_MAX_QUESTIONS):
            if decision.verdict is not Verdict.ASK:
                return ApprovalOutcome(decision.verdict is Verdict.ALLOW, decision, None, asked)
            answer, asked = await self.request_approval(call_id, tool, decision, emit), True
            if not answer.allowed:
                return ApprovalOutcome(False, decision, answer, asked)
            now = decide()
            if now == decision or now.verdict is Verdict.ALLOW:
                return ApprovalOutcome(True, decision, answer, asked)
            decision = now
        if decision.verdict is Verdict.ASK:
            decision = structs.replace(decision, verdict=Verdict.DENY, reason=_KEEPS_CHANGING)
        return ApprovalOutcome(False, decision, None, asked)

    async def request_approval(
        self, call_id: str, tool: str, decision: gate.PermissionDecision, emit: Emit
    ) -> gate.ApprovalAnswer:
        """Return the person's answer, and remember what it covers beyond the call.

        Raises HermesError when it cannot be remembered.
        """
        if self._approver is None:
            return gate.ApprovalAnswer(scope=AnswerScope.DENY, by=gate.NOBODY)
        shown: list[str] = []

        def show(question: gate.ApprovalRequest) -> None:
            shown.append(question.approval_id)
            self._shown_hints.add(decision.hint)
            # Everybody sees the question without what it was decided on.
            seen = {name: value for name, value in structs.asdict(question).items() if name != "fingerprint"}
            emit(ApprovalAsked(**seen))

        try:
            answer = await self._approver.ask(self._build_request(call_id, tool, decision), show)
        except asyncio.CancelledError:
            for approval_id in shown[:1]:
                emit(ApprovalAnswered(approval_id, False, gate.WITHDRAWN))
            raise
        for approval_id in shown[:1]:
            emit(ApprovalAnswered(approval_id, answer.allowed, answer.by))
        if answer.allowed:
            await self.gate.remember_approval(decision, answer.scope)
        elif answer.by not in gate.NO_PERSON:
            self.gate.remember_refusal(decision)
        return answer

    def _build_request(self, call_id: str, tool: str, decision: gate.PermissionDecision) -> gate.ApprovalRequest:
        scopes = (AnswerScope.ONCE, AnswerScope.SESSION, AnswerScope.ALWAYS)
        once, session, always = (escape_line_breaks(decision.describe_scope(one)) for one in scopes)
        fresh = decision.hint and decision.hint not in self._shown_hints
        return gate.ApprovalRequest(
            approval_id=f"approval_{os.urandom(8).hex()}",
            call_id=call_id,
            tool=tool,
            subject=decision.subject,
            rule=decision.rule,
            reason=join_localizable(". ", (decision.reason, decision.hint)) if fresh else decision.reason,
            cwd=decision.cwd,
            fingerprint=decision.fingerprint,
            once_covers=once,
            session_covers=session,
            always_covers=always,
            no_covers=escape_line_breaks(", ".join(f"`{one}`" for one in decision.lasting_refusals)),
        )


class RuntimePermissions:
    """The permissions that one call's command asks for while it runs.

    One question is asked at a time, and one for all requests that want the same.
    """

    def __init__(
        self,
        call_id: str,
        tool: str,
        questions: ApprovalPrompter,
        context: ToolContext,
        emit: Emit,
        *,
        allowed: gate.PermissionDecision,
        decide: Decide,
    ) -> None:
        self._call_and_tool = (call_id, tool)
        self._questions = questions
        self._allowed, self._decide = allowed, decide
        self._context = context
        self._emit = emit
        self._question_lock = asyncio.Lock()
        self._permits: dict[str, Permit] = {}
        """The outcome of each question, by its subject."""

    async def connect(self, host: str, port: int, name: str = "") -> Permit:
        """Return whether the command may connect to this host; `name` is what led to it if it is an address."""
        named = host if port in _DEFAULT_PORTS or ":" in host else f"{host}:{port}"
        setting = f"security.allowed_hosts: [{named}]"
        decide = partial(self._questions.gate.decide_connection, host, port, self._context, name)
        return await self._request_permit(decide, setting)

    async def open_site(self, host: str, port: int) -> Permit:
        """Return whether the browser may open pages of this host."""
        named = host if port in _DEFAULT_PORTS or ":" in host else f"{host}:{port}"
        decide = partial(self._questions.gate.decide_site, host, port, self._context)
        return await self._request_permit(decide, f"security.allowed_hosts: [{named}]")

    async def send_to_site(self, host: str, port: int, sender: str) -> Permit:
        """Return whether a page of `sender` may send data to this host."""
        return await self._request_permit(
            partial(self._questions.gate.decide_site, host, port, self._context, sender), ""
        )

    async def open_path(self, denied: DeniedPath) -> Permit:
        """Return whether the command may read, or write, this path and what is below it."""
        setting = f"terminal.sandbox.writable: [{quote_setting(denied.path)}]" if denied.is_write else ""
        return await self._request_permit(partial(self._questions.gate.decide_opening, denied, self._context), setting)

    async def confirm_call(self, emit: Emit) -> Permit:
        """Return whether the call may go on, decided as if it began now: a person is asked about what has changed."""
        async with self._question_lock:
            decision = self._decide()
            if decision == self._allowed:
                return Permit(True)
            outcome = await self._questions.resolve_decision(*self._call_and_tool, decision, self._decide, emit)
            decision = outcome.decision
            if outcome.allowed:
                self._allowed = decision
                return Permit(True)
            why = describe_refusal(outcome.answer) if outcome.answer is not None else ""
            reason = join_localizable(", and ", [one for one in (decision.reason, why) if one])
            emit(Refused(*self._call_and_tool, decision.subject, reason, decision.pattern if why else ""))
            return Permit(False, reason)

    async def _request_permit(self, decide: Decide, setting: str) -> Permit:
        async with self._question_lock:
            decision = decide()
            if decision.verdict is Verdict.ALLOW:
                return Permit(True)
            if (known := self._permits.get(decision.subject)) is not None:
                return known
            why, unasked = decision.reason, False
            if decision.verdict is Verdict.ASK:
                answer = await self._questions.request_approval(*self._call_and_tool, decision, self._emit)
                if answer.allowed:
                    permit = Permit(True, once=answer.scope is AnswerScope.ONCE)
                    return self._permits.setdefault(decision.subject, permit)
                why, unasked = describe_refusal(answer), answer.by == gate.NOBODY
            reason, pattern = join_localizable(", and ", dict.fromkeys((decision.reason, why))), ""
            if unasked:
                setting = setting or f"command_allowlist: [{quote_setting(decision.pattern)}]"
                reason = N_("{reason}; {setting} would allow it", reason=reason, setting=setting)
                pattern = decision.pattern
            self._emit(Refused(*self._call_and_tool, decision.subject, reason, pattern))
            return self._permits.setdefault(decision.subject, Permit(False, why))


def describe_refusal(answer: gate.ApprovalAnswer) -> str:
    """Return the reason of a refusal in words."""
    return _REFUSAL_REASONS.get(answer.by) or N_("{by} said no", by=answer.by)
