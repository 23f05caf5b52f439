"""What other people's code may say about a call, before the gate decides and after the call has run.

It narrows only: it refuses, has a person asked, changes arguments (which the gate then decides about), and adds to or
changes what the model is shown.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from hermes.core.encoding import to_plain
from hermes.core.messages import Provenance, ToolCallPart, ToolResultPart
from hermes.safety.shell.findings import Verdict
from hermes.tools.permissions.fingerprint import fingerprint_texts
from hermes.tools.permissions.gate import PermissionDecision
from hermes.tools.schema import Arguments
from hermes.tools.taint import join_provenances
from hermes.tools.tool import Tool, ToolOutput

HOOK_RULE = "hook"
"""The rule of a question that a hook wants to be asked."""


class HookedCall(Struct, frozen=True, kw_only=True):
    """A call as hooks are told of it: `arguments` are those that the model has given."""

    call_id: str
    tool: Tool
    arguments: Mapping[str, object]
    command: str
    """The shell text that it runs; empty where it runs none."""


class CallReview(Struct, frozen=True, kw_only=True):
    """What hooks say of a call."""

    denied: str = ""
    """Why the call is refused; empty where it is not."""
    asks: str = ""
    """Why a person is to be asked; empty where the gate alone decides."""
    arguments: str | None = None
    """A JSON object in the place of the arguments."""
    notes: tuple[str, ...] = ()
    """Lines for the model beside the result."""
    provenance: Provenance | None = None
    """Where these lines come from, if not from code that the person has enabled."""

    def narrow(self, decision: PermissionDecision, raw: str) -> PermissionDecision:
        """Return the decision as hooks narrow it: a refusal, or a question where the rules allow the call."""
        if self.denied:
            return refuse_decision(decision, self.denied)
        if not self.asks or decision.verdict is not Verdict.ALLOW:
            return decision
        return structs.replace(
            decision,
            verdict=Verdict.ASK,
            rule=HOOK_RULE,
            reason=self.asks,
            grants=(),
            always=(),
            pattern="",
            fingerprint=decision.fingerprint or fingerprint_texts(decision.cwd, raw),
        )

    def join(self, after: "CallReview") -> "CallReview":
        """Return what is said before a call and after it as one."""
        origin = join_provenances(self.provenance, after.provenance)
        return structs.replace(self, notes=(*self.notes, *after.notes), provenance=origin)

    def add_to(self, result: ToolResultPart) -> ToolResultPart:
        """Return the result with these lines behind it."""
        if not self.notes:
            return result
        text, origin = "\n".join(self.notes), self.provenance
        if origin is not None and origin.is_untrusted:
            from hermes.safety.fencing import fence_untrusted_text

            text = fence_untrusted_text(text, origin)
        joined = join_provenances(result.provenance, origin)
        return structs.replace(result, text=f"{result.text}\n{text}", provenance=joined)


class CallHooks(Protocol):
    """Hooks of calls. No method raises anything but CancelledError: what cannot answer has said no."""

    async def review_call(self, call: HookedCall) -> CallReview:
        """Return what hooks say of a call."""
        ...

    async def review_question(self, call: HookedCall, decision: PermissionDecision) -> str:
        """Return why a call that a person would be asked about is refused without a question; empty where it is not."""
        ...

    async def finish_call(self, call: HookedCall, output: ToolOutput, seconds: float) -> tuple[ToolOutput, CallReview]:
        """Return the output as hooks leave it, and what they say beside it."""
        ...


def build_hooked_call(call: ToolCallPart, tool: Tool, arguments: Arguments, raw: str) -> HookedCall:
    """Return a call as hooks are told of it, without the defaults that the model did not give."""
    given = _read_given(raw, arguments)
    return HookedCall(call_id=call.call_id, tool=tool, arguments=given, command=tool.command(arguments))


def _read_given(raw: str, arguments: Arguments) -> Mapping[str, object]:
    """Return the arguments that the model gave, as the tool gets them; where its text is no plain JSON, all."""
    try:
        given = msgspec.json.decode(raw) if raw.strip() else {}
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        given = arguments
    names = given if isinstance(given, Mapping) else arguments
    found: Mapping[str, object] = to_plain({name: arguments[name] for name in names if name in arguments})
    return found


def refuse_decision(decision: PermissionDecision, reason: str) -> PermissionDecision:
    """Return the decision as a refusal by hooks for this reason; without one the decision as it is."""
    return structs.replace(decision, verdict=Verdict.DENY, rule=HOOK_RULE, reason=reason) if reason else decision
