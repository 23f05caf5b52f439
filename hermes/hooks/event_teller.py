"""Tells hooks of what happens beside a turn: questions and their answers, requests, sub-agents."""

import asyncio
import logging
from collections.abc import Callable

from msgspec import structs

from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, Refused, RequestEnded, Retrying, SubAgentChanged
from hermes.core.sub_agents import SubAgentState
from hermes.hooks.dispatcher import HookDispatcher
from hermes.hooks.events import HookEvent
from hermes.hooks.hook import HookCall
from hermes.i18n.messages import N_
from hermes.util.text import strip_control_characters

_LOG = logging.getLogger(__name__)
_MAX_EVENTS = 256


class EventTeller:
    """Queues what hooks are told, and tells it in order. What does not fit into 256 waiting calls is dropped with a
    line in the log.
    """

    def __init__(self, dispatcher: HookDispatcher, build_call: Callable[..., HookCall]) -> None:
        self._dispatcher = dispatcher
        self._build_call = build_call
        self._asked: dict[str, ApprovalAsked] = {}
        self._queue: asyncio.Queue[HookCall] = asyncio.Queue(_MAX_EVENTS)
        self._teller: asyncio.Task[None] | None = None

    def take_event(self, event: Event) -> None:
        """Queue what hooks are told of an event of the session. It never blocks."""
        call = self._describe_event(event)
        if call is None or not self._dispatcher.has(call):
            return
        if self._teller is None:
            self._teller = asyncio.create_task(self._tell_events(), name="tell hooks")
        try:
            self._queue.put_nowait(call)
        except asyncio.QueueFull:
            _LOG.warning("hooks are behind: %s was not told", call.event)

    def _describe_event(self, event: Event) -> HookCall | None:
        match event:
            case ApprovalAsked():
                self._asked[event.approval_id] = event
                text = N_("Hermes needs your approval: {subject}", subject=strip_control_characters(event.subject))
                return self._build_call(HookEvent.NOTIFICATION, text, "permission_prompt", tool=event.tool)
            case ApprovalAnswered():
                asked = self._asked.pop(event.approval_id, None)
                name = asked.tool if asked is not None else ""
                call = self._build_call(HookEvent.POST_APPROVAL_RESPONSE, failed=not event.allowed, by=event.by)
                return structs.replace(call, tool=name, call_id=asked.call_id if asked is not None else "")
            case Refused():
                call = self._build_call(HookEvent.POST_APPROVAL_RESPONSE, event.reason, failed=True, by="rules")
                return structs.replace(call, tool=event.tool, call_id=event.call_id)
            case RequestEnded():
                usage = structs.asdict(event.usage) if event.usage is not None else {}
                return self._build_call(HookEvent.POST_API_REQUEST, number=event.number, usage=usage)
            case Retrying():
                return self._build_call(HookEvent.API_REQUEST_ERROR, event.message, reason=event.reason)
            case SubAgentChanged():
                return self._describe_sub_agent(event)
            case _:
                return None

    def _describe_sub_agent(self, event: SubAgentChanged) -> HookCall | None:
        begun = event.state is SubAgentState.RUNNING and event.step == 0
        if not begun and not event.state.has_ended:
            return None
        kind = HookEvent.SUBAGENT_START if begun else HookEvent.SUBAGENT_STOP
        return self._build_call(
            kind, event.doing, agent_id=event.session_id, agent_type=event.name, state=event.state.value
        )

    async def _tell_events(self) -> None:
        while True:
            call = await self._queue.get()
            try:
                await self._dispatcher.run(call)
            finally:
                self._queue.task_done()

    def forget_questions(self) -> None:
        """Forget the questions of a turn that has ended."""
        self._asked.clear()

    async def finish(self) -> None:
        """Wait until everything was told."""
        if self._teller is not None:
            await self._queue.join()

    async def close(self) -> None:
        """Stop telling; what waits is dropped."""
        if self._teller is not None:
            self._teller.cancel()
            await asyncio.wait({self._teller})
