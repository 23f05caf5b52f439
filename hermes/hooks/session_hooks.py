"""The hooks of one session: what the executor, the loop and the actor ask, put into calls of hooks and back."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from hermes.agent.turn import TurnState
from hermes.context.pins import estimate_tokens
from hermes.core.encoding import to_json
from hermes.core.events import Event, TurnEnded, TurnResumed, TurnStarted
from hermes.core.messages import PROGRAM, Provenance, TextPart, ToolStatus
from hermes.core.outcomes import ExitReason
from hermes.hooks.dispatcher import HookContext, HookDispatcher, HookResult
from hermes.hooks.event_teller import EventTeller
from hermes.hooks.events import HookEvent
from hermes.hooks.hook import HookCall, HookDecision
from hermes.hooks.transcript_file import TranscriptFile
from hermes.i18n.messages import N_
from hermes.safety.fencing import fence_untrusted_text
from hermes.tools.output import write_spill
from hermes.tools.permissions.call_hooks import CallReview, HookedCall
from hermes.tools.permissions.gate import PermissionDecision
from hermes.tools.taint import join_provenances, sources_from_provenance
from hermes.tools.tool import ToolOutput
from hermes.util.text import strip_control_characters

_LOG = logging.getLogger(__name__)
TURN_TOKENS = 400
"""The tokens that all hooks may add in one turn."""
START_TOKENS = 2_500
"""The tokens that all hooks may add once, with the first message of a session."""
_BYTES_PER_TOKEN = 4
_MAX_CONTEXT_FILES = 8
"""The most texts of one turn that go to a file once there is no room: each costs a line."""
_END_SECONDS = 10.0
"""Seconds that hooks have, all together, when a session is closed."""


class SessionFacts(Struct, frozen=True, kw_only=True):
    """What hooks are told of their session."""

    session_id: str
    folder: str
    model: str
    is_fresh: bool
    is_sub_agent: bool
    get_mode: Callable[[], str]
    list_sources: Callable[[], Sequence[str]]
    """Returns the untrusted sources whose text stands in the conversation."""
    spill_folder: Path
    """Where texts go that are too long to be added."""


class _ContextBudget(Struct):
    """What hooks may still add for the model, in tokens."""

    left: int = TURN_TOKENS
    files: int = 0


class SessionHooks:
    """Calls the hooks of a session. It is made only where there are any."""

    def __init__(self, dispatcher: HookDispatcher, facts: SessionFacts, transcript: TranscriptFile) -> None:
        self.dispatcher = dispatcher
        self.transcript = transcript
        self._facts = facts
        self._budget = _ContextBudget()
        self._turn_id = ""
        self._start_source = "startup" if facts.is_fresh else "resume"
        self.events = EventTeller(dispatcher, self.build_call)
        """Tells hooks of what happens beside the turn."""
        self.ends_turn = ""
        """Why hooks want the running turn to end; empty while they do not."""

    def take_event(self, event: Event) -> None:
        """Take an event of the session: it may say which turn runs, or be something that hooks are told of."""
        if isinstance(event, TurnStarted | TurnResumed):
            self._turn_id = event.turn_id
        self.events.take_event(event)
        self.transcript.take_event(event)

    def build_call(self, event: HookEvent, text: str = "", source: str = "", **details: object) -> HookCall:
        """Return a call of hooks at an event of this session."""
        facts = self._facts
        return HookCall(
            event=event,
            session_id=facts.session_id,
            turn_id=self._turn_id,
            folder=facts.folder,
            mode=facts.get_mode(),
            text=text,
            source=source,
            details={"is_sub_agent": facts.is_sub_agent, **details},
            sources=tuple(facts.list_sources()),
        )

    # Calls of tools.

    async def review_call(self, call: HookedCall) -> CallReview:
        """Return what hooks say of a call of a tool."""
        told = self._build_tool_call(HookEvent.PRE_TOOL_CALL, call)
        result = await self.dispatcher.run(told)
        self._note_end(result)
        asks = result.reason if result.decision is HookDecision.ASK else ""
        changed = next((one.arguments for _, one in result.outcomes if one.arguments is not None), None)
        notes = self._take_contexts(result.contexts)
        if changed is not None and result.decision is not HookDecision.DENY:
            notes = (*notes, "[A hook of the person's changed the arguments of this call before it ran.]")
            # The others have seen another call than the one that runs.
            again = await self._review_changed(structs.replace(told, arguments=changed), result)
            result = again if again.decision is HookDecision.DENY else result
            asks = asks or (again.reason if again.decision is HookDecision.ASK else "")
        if result.decision is HookDecision.DENY:
            return CallReview(denied=result.reason)
        return CallReview(
            asks=asks,
            arguments=to_json(changed).decode() if changed is not None else None,
            notes=notes,
            provenance=_find_provenance(result.contexts),
        )

    async def _review_changed(self, told: HookCall, first: HookResult) -> HookResult:
        """Return what the hooks say of changed arguments that have not changed them."""
        authors = frozenset(name for name, one in first.outcomes if one.arguments is not None)
        again = await self.dispatcher.run(told, passed_over=authors)
        self._note_end(again)
        if any(one.arguments not in (None, told.arguments) for _, one in again.outcomes):
            reason = N_("several hooks change the arguments of the call in different ways")
            return structs.replace(again, decision=HookDecision.DENY, reason=reason)
        return again

    async def review_question(self, call: HookedCall, decision: PermissionDecision) -> str:
        """Return why a call is refused that a person would be asked about; empty where it is not."""
        told = self._build_tool_call(HookEvent.PRE_APPROVAL_REQUEST, call)
        result = await self.dispatcher.run(structs.replace(told, text=decision.reason, source=decision.rule))
        self._note_end(result)
        return result.reason if result.decision is HookDecision.DENY else ""

    async def finish_call(self, call: HookedCall, output: ToolOutput, seconds: float) -> tuple[ToolOutput, CallReview]:
        """Tell hooks of a call that has run; return its output as they leave it, and what they add."""
        failed = output.failed or output.status is not ToolStatus.OK
        details = {
            "failed": failed,
            "status": output.status.value,
            "exit_code": output.code,
            "duration_ms": int(seconds * 1000),
            "tool_response": _describe_response(call, output),
        }
        told = self._build_tool_call(HookEvent.POST_TOOL_CALL, call)
        origin = output.provenance
        heard = sources_from_provenance(origin) if origin is not None and origin.is_untrusted else ()
        sources = tuple(dict.fromkeys((*told.sources, *heard)))
        told = structs.replace(told, text=output.text, details={**told.details, **details}, sources=sources)
        result = await self.dispatcher.run(told)
        self._note_end(result)
        notes = self._take_contexts(result.contexts)
        heard_from = origin if heard and notes else None  # a hook may say what it was told
        review = CallReview(notes=notes, provenance=join_provenances(_find_provenance(result.contexts), heard_from))
        return await self._transform_output(told, result, output, is_command=bool(call.command)), review

    async def _transform_output(
        self, told: HookCall, result: HookResult, output: ToolOutput, *, is_command: bool
    ) -> ToolOutput:
        """Return the output of a call with the text that hooks put in its place."""
        text, origin = output.text, None
        for _, one in result.outcomes:
            if one.text is not None:
                text, origin = one.text, join_provenances(origin, one.provenance)
        events = [HookEvent.TRANSFORM_TERMINAL_OUTPUT] if is_command else []
        for event in (*events, HookEvent.TRANSFORM_TOOL_RESULT):
            text, found = await self.dispatcher.transform_text(structs.replace(told, event=event, text=text))
            origin = join_provenances(origin, found)
        if text is output.text:
            return output
        return structs.replace(output, text=text, provenance=join_provenances(origin, output.provenance))

    def _build_tool_call(self, event: HookEvent, call: HookedCall) -> HookCall:
        told = self.build_call(event)
        return structs.replace(told, tool=call.tool.name, call_id=call.call_id, arguments=call.arguments)

    # Messages, answers and requests of a turn.

    async def review_message(self, text: str) -> tuple[str, Sequence[TextPart]]:
        """Return why a person's message is refused, empty where it is not, and what hooks add to it."""
        self._budget = _ContextBudget()
        self.ends_turn = ""
        parts: list[TextPart] = []
        if self._start_source:
            parts += await self._start_session()
        result = await self.dispatcher.run(self.build_call(HookEvent.PRE_LLM_CALL, text))
        if result.decision is HookDecision.DENY:
            return result.reason, ()
        return "", [*parts, *self._build_parts(result.contexts)]

    @property
    def checks_messages(self) -> bool:
        """Whether hooks are asked about each message, so that none may join a turn unseen."""
        return self.dispatcher.has(self.build_call(HookEvent.PRE_LLM_CALL))

    async def _start_session(self) -> Sequence[TextPart]:
        """Tell hooks that the session has begun, once; return what they add to its first message."""
        source, self._start_source = self._start_source, ""
        call = self.build_call(HookEvent.ON_SESSION_START, source=source, model=self._facts.model)
        result = await self.dispatcher.run(call)
        self._budget.left = START_TOKENS
        parts = self._build_parts(result.contexts)
        self._budget = _ContextBudget(files=self._budget.files)
        return parts

    async def review_answer(self, text: str, *, asked_before: bool) -> str:
        """Return what is left to do before an answer may end the turn, by hooks; empty where nothing is."""
        call = self.build_call(HookEvent.PRE_VERIFY, text, stop_hook_active=asked_before)
        result = await self.dispatcher.run(call)
        return result.reason if result.decision is HookDecision.DENY and not result.ends_turn else ""

    @property
    def holds_answers(self) -> bool:
        """Whether answers are shown only once hooks have had them."""
        return self.dispatcher.has(self.build_call(HookEvent.TRANSFORM_LLM_OUTPUT))

    async def transform_answer(self, text: str) -> TextPart:
        """Return an answer as hooks leave it."""
        text, origin = await self.dispatcher.transform_text(self.build_call(HookEvent.TRANSFORM_LLM_OUTPUT, text))
        return TextPart(text=text, provenance=origin)

    async def review_request(self, number: int) -> str:
        """Return why the next request to the model is not made; empty where it is."""
        if self.ends_turn:
            return self.ends_turn
        result = await self.dispatcher.run(self.build_call(HookEvent.PRE_API_REQUEST, number=number))
        return result.reason if result.decision is HookDecision.DENY else ""

    async def review_compression(self, trigger: str, wish: str) -> str:
        """Return why a conversation is not made shorter now; empty where it may be."""
        result = await self.dispatcher.run(self.build_call(HookEvent.PRE_COMPRESS, wish, trigger))
        return result.reason if result.decision is HookDecision.DENY else ""

    async def end_turn(self, state: TurnState, ended: TurnEnded) -> None:
        """Tell hooks that a turn has ended."""
        del state
        failed = not ended.reason.is_completed and ended.reason is not ExitReason.INTERRUPTED
        for event in (HookEvent.POST_LLM_CALL, HookEvent.ON_SESSION_END):
            call = self.build_call(
                event, ended.text, failed=failed, reason=ended.reason.value, error=ended.error, calls=ended.calls
            )
            await self.dispatcher.run(call)
        self.events.forget_questions()

    async def note_compression(self, trigger: str) -> None:
        """Tell hooks that the conversation was made shorter, and with the next message of its new start."""
        self._start_source = "compact"
        await self.dispatcher.run(self.build_call(HookEvent.POST_COMPRESS, source=trigger))

    async def tell_reset(self) -> None:
        """Tell hooks that a chat leaves this session for a new one."""
        await self.dispatcher.run(self.build_call(HookEvent.ON_SESSION_RESET))

    async def close(self) -> None:
        """Tell hooks that the session is closed, within ten seconds, and end what they keep running."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self.events.finish()
                await self.dispatcher.run(self.build_call(HookEvent.ON_SESSION_FINALIZE, source="other"))
        except TimeoutError:
            _LOG.warning("hooks took longer than %s s at the end of a session", _END_SECONDS)
        finally:
            await self.events.close()
            await self.dispatcher.close()

    # Texts for the model.

    def _note_end(self, result: HookResult) -> None:
        if result.ends_turn:
            self.ends_turn = result.reason

    def _build_parts(self, contexts: Sequence[HookContext]) -> Sequence[TextPart]:
        """Return contexts as parts of a message."""
        parts = []
        for one in contexts:
            text = self._fit_context(one)
            if not text:
                continue
            if one.provenance is not None and one.provenance.is_untrusted:
                parts.append(TextPart(text=fence_untrusted_text(text, one.provenance), provenance=one.provenance))
            else:
                parts.append(TextPart(text=text, provenance=one.provenance or PROGRAM))
        return parts

    def _take_contexts(self, contexts: Sequence[HookContext]) -> tuple[str, ...]:
        return tuple(filter(None, map(self._fit_context, contexts)))

    def _fit_context(self, context: HookContext) -> str:
        """Return a context with the name of its hook, as far as there is room; what is longer goes to a file, and is
        dropped, with a line in the log, after eight of these.
        """
        text = strip_control_characters(context.text).strip()
        size, left = estimate_tokens(text), self._budget.left
        if size <= left:
            self._budget.left -= size
            return f"[Hook {context.name}: {text}]"
        self._budget.left = 0
        if self._budget.files >= _MAX_CONTEXT_FILES:
            _LOG.warning("hook %s adds more than there is room for: %s tokens are dropped", context.name, size)
            return ""
        self._budget.files += 1
        shown = text.encode()[: left * _BYTES_PER_TOKEN].decode("utf-8", "ignore")
        try:
            name = f"hook-{self._turn_id or 'start'}-{self._budget.files}"
            file = write_spill(text, self._facts.spill_folder, name)
        except OSError as error:
            return f"[Hook {context.name}: {shown} (the rest is lost: {error.strerror})]"
        return f"[Hook {context.name}: {shown} (all {size} tokens are in {file}: use read_file on it)]"


def _find_provenance(contexts: Sequence[HookContext]) -> Provenance | None:
    """Return where contexts come from, the least trusted of them."""
    found = [one.provenance for one in contexts if one.provenance is not None]
    return next((one for one in found if one.is_untrusted), found[0] if found else None)


def _describe_response(call: HookedCall, output: ToolOutput) -> Mapping[str, object]:
    """Return a result in the terms of the other agent."""
    if call.command:
        return {"stdout": output.text, "stderr": "", "interrupted": False, "exitCode": output.code}
    return {"content": output.text, "success": output.status is ToolStatus.OK}
