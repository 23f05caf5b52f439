"""What a program that runs as a hook is sent, and what its end means.

Two forms: Hermes' own, and that of Claude Code's hook reference. In both a guard that ends in any other way than with
0 refuses, and text that begins with `{` must be an answer.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from hermes.core.encoding import to_json
from hermes.hooks.definitions import HookDefinition
from hermes.hooks.events import EVENT_TRAITS, HookEvent, HookRole
from hermes.hooks.foreign_tools import ForeignCall
from hermes.hooks.hook import NO_OUTCOME, HookCall, HookDecision, HookError, HookOutcome
from hermes.util.text import to_one_line

BLOCK_CODE = 2
"""The exit code that means no."""
_MAX_REASON = 4_000
_CONTEXT_EVENTS = frozenset({HookEvent.ON_SESSION_START, HookEvent.PRE_LLM_CALL})
"""Where plain text of a program is context for the model."""
_MODES = {"ask": "default", "plan": "plan", "auto": "acceptEdits", "yolo": "bypassPermissions"}
_DENYING = frozenset({"deny", "block"})
_ASKING = frozenset({"ask", "defer"})


class ProgramEnd(Struct, frozen=True):
    """How a program ended: its exit code, and what it wrote."""

    code: int
    output: str
    errors: str


class _PermissionAnswer(Struct):
    behavior: str = ""
    message: str = ""
    updated: Mapping[str, object] | None = field(default=None, name="updatedInput")
    interrupt: bool = False


class _SpecificOutput(Struct):
    event: str = field(default="", name="hookEventName")
    decision: str = field(default="", name="permissionDecision")
    reason: str = field(default="", name="permissionDecisionReason")
    updated: Mapping[str, object] | None = field(default=None, name="updatedInput")
    context: str = field(default="", name="additionalContext")
    output: object = field(default=None, name="updatedToolOutput")
    mcp_output: object = field(default=None, name="updatedMCPToolOutput")
    permission: _PermissionAnswer | None = field(default=None, name="decision")


class _Answer(Struct):
    """The fields of both forms; others have no meaning here."""

    goes_on: bool = field(default=True, name="continue")
    stop_reason: str = field(default="", name="stopReason")
    notice: str = field(default="", name="systemMessage")
    decision: str = ""
    reason: str = ""
    specific: _SpecificOutput | None = field(default=None, name="hookSpecificOutput")
    context: str = ""
    action: str = ""
    message: str = ""
    text: str | None = None
    tool_input: Mapping[str, object] | None = None


def build_input(hook: HookDefinition, call: HookCall, foreign: ForeignCall | None, transcript: str) -> bytes:
    """Return the JSON text that a program reads. `foreign` is the call of a tool in the other agent's terms."""
    if not hook.is_foreign:
        return to_json(
            {
                "hook_event_name": hook.name,
                "session_id": call.session_id,
                "turn_id": call.turn_id,
                "cwd": call.folder,
                "tool_name": call.tool or None,
                "tool_input": dict(call.arguments) if call.tool else None,
                "tool_call_id": call.call_id or None,
                "text": call.text,
                "source": call.source,
                "extra": dict(call.details),
            }
        )
    told: dict[str, object] = {
        "session_id": call.session_id,
        "transcript_path": transcript,
        "cwd": call.folder,
        "permission_mode": _MODES.get(call.mode, "default"),
        "hook_event_name": hook.name,
    }
    if foreign is not None:
        told |= {"tool_name": foreign.name, "tool_input": foreign.arguments, "tool_use_id": call.call_id}
    return to_json(told | _build_foreign_fields(hook, call))


def _build_foreign_fields(hook: HookDefinition, call: HookCall) -> dict[str, object]:
    """Return what the other agent tells at this event beside the session and the call."""
    details = call.details
    ended: dict[str, object] = {
        "stop_hook_active": bool(details.get("stop_hook_active")),
        "last_assistant_message": call.text,
    }
    compacted: dict[str, object] = {"trigger": call.source, "custom_instructions": call.text}
    fields: dict[str, dict[str, object]] = {
        "PostToolUse": {
            "tool_response": details.get("tool_response", {}),
            "duration_ms": details.get("duration_ms", 0),
        },
        "PostToolUseFailure": {"error": call.text, "is_interrupt": False},
        "UserPromptSubmit": {"prompt": call.text},
        "Stop": ended,
        "SubagentStop": ended,
        "StopFailure": {**ended, "error": details.get("reason", "")},
        "SessionStart": {"source": call.source, "model": details.get("model", "")},
        "SessionEnd": {"reason": call.source or "other"},
        "PreCompact": compacted,
        "PostCompact": compacted,
        "Notification": {"message": call.text, "title": "Hermes", "notification_type": call.source},
        "PermissionDenied": {"reason": call.text},
        "SubagentStart": {"agent_id": details.get("agent_id", ""), "agent_type": details.get("agent_type", "")},
    }
    return fields.get(hook.name, {})


def read_end(hook: HookDefinition, end: ProgramEnd) -> HookOutcome:
    """Return what a program's end means. Raises HookError where it kept from answering."""
    role = EVENT_TRAITS[hook.event].role
    if end.code == BLOCK_CODE:
        return _read_block(hook, end)
    if end.code:
        how = f"was killed by signal {-end.code}" if end.code < 0 else f"ended with exit code {end.code}"
        said = to_one_line(end.errors, 300)
        raise HookError(f"it {how}{f': {said}' if said else ''}")
    text = end.output.strip()
    if text.startswith("{"):
        return _read_answer(hook, text)
    if text and hook.event in _CONTEXT_EVENTS:
        return HookOutcome(context=text)
    if text and role is HookRole.TRANSFORM and not hook.is_foreign:
        return HookOutcome(text=text)
    return NO_OUTCOME


def _read_block(hook: HookDefinition, end: ProgramEnd) -> HookOutcome:
    """Return what the exit code that means no is at this event; its reason is what went to standard error."""
    reason = end.errors.strip()[:_MAX_REASON] or "it gave no reason"
    role = EVENT_TRAITS[hook.event].role
    if role is HookRole.GUARD or hook.event is HookEvent.PRE_VERIFY:
        return HookOutcome(decision=HookDecision.DENY, reason=reason)
    if hook.event is HookEvent.POST_TOOL_CALL:
        return HookOutcome(context=reason)
    if role is HookRole.TRANSFORM:
        raise HookError(reason)
    return HookOutcome(notice=to_one_line(reason, 300))


def _read_answer(hook: HookDefinition, text: str) -> HookOutcome:
    try:
        answer = msgspec.json.decode(text, type=_Answer)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise HookError(f"its answer cannot be read: {to_one_line(str(error), 200)}") from None
    said = answer.specific if answer.specific is not None else _SpecificOutput()
    if said.event and said.event != hook.name:
        raise HookError(f"its answer is for {said.event[:40]}, not for {hook.name}")
    permission = said.permission if said.permission is not None else _PermissionAnswer()
    if not answer.goes_on:
        return _end_turn(answer)
    words = (answer.decision, answer.action, said.decision, permission.behavior)
    changes = (one for one in (said.updated, permission.updated, answer.tool_input) if one is not None)
    return HookOutcome(
        decision=_read_decision(hook, words),
        reason=(said.reason or permission.message or answer.reason or answer.message)[:_MAX_REASON],
        arguments=next(changes, None),
        context=_join_texts(said.context, answer.context, _read_feedback(hook, answer)),
        text=_read_text(said, answer),
        notice=to_one_line(answer.notice, 500),
        ends_turn=permission.interrupt,
    )


def _end_turn(answer: _Answer) -> HookOutcome:
    """Return the outcome of an answer that ends the turn: nothing else of it counts."""
    reason = answer.stop_reason or answer.reason or "it wants no more work"
    return HookOutcome(
        decision=HookDecision.DENY,
        reason=reason[:_MAX_REASON],
        notice=to_one_line(answer.notice, 500),
        ends_turn=True,
    )


def _read_decision(hook: HookDefinition, words: tuple[str, ...]) -> HookDecision:
    """Return the strictest decision of an answer; a word that is none here is an error where it could be a no."""
    known = _DENYING | _ASKING | {"", "allow", "approve", "continue", "none"}
    unknown = [word for word in words if word not in known]
    if unknown:
        raise HookError(f"its decision {unknown[0][:40]!r} is not known")
    if _DENYING & set(words):
        if hook.event is HookEvent.POST_TOOL_CALL:
            return HookDecision.NONE  # the call has run: what it says is feedback
        return HookDecision.DENY
    if hook.event is HookEvent.PRE_VERIFY and "continue" in words:
        return HookDecision.DENY
    return HookDecision.ASK if _ASKING & set(words) else HookDecision.NONE


def _read_feedback(hook: HookDefinition, answer: _Answer) -> str:
    """Return the reason of a `block` after a call, which the model is told."""
    is_after = hook.event is HookEvent.POST_TOOL_CALL
    return answer.reason if is_after and answer.decision in _DENYING else ""


def _read_text(said: _SpecificOutput, answer: _Answer) -> str | None:
    for given in (said.output, said.mcp_output):
        if given is not None:
            return given if isinstance(given, str) else to_json(given).decode()
    return answer.text


def _join_texts(*texts: str) -> str:
    return "\n".join(text.strip() for text in texts if text.strip())
