"""Questions to the agent: each is a turn in a session of its own, with a cap on money and steps.

What its tools would have to ask a person about is refused, unless a person's token answers it.
"""

import asyncio
import hmac
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Annotated

from msgspec import Meta, Raw, Struct

from hermes.admin.mcp_tools import AskQuestion, build_ask_tool
from hermes.core.encoding import Plain
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, ToolStarted, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import N_, localize
from hermes.mcp.serving.calls import McpCall, Result
from hermes.mcp.serving.served_tools import (
    ServedTool,
    build_schema,
    decode_arguments,
    make_error_result,
    make_result,
)
from hermes.mcp_server.options import McpServeOptions
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.egress_filter import EgressTextFilter
from hermes.sessions.options import SessionOptions

_PLATFORM = "mcp_server"
_MAX_OPEN = 4
"""Questions that are answered at once."""
_MAX_ATTEMPTS = 5
"""Wrong tokens after which none is taken any more."""
_PERSON = "a person, over MCP"
_ANSWERS = {"once": AnswerScope.ONCE, "deny": AnswerScope.DENY}


class ListPermissions(Struct, forbid_unknown_fields=True):
    """The arguments of `permissions_list_open`."""


class RespondToPermission(Struct, forbid_unknown_fields=True):
    """The arguments of `permissions_respond`."""

    approval_id: Annotated[str, Meta(min_length=1, max_length=200)]
    answer: Annotated[
        str, Meta(pattern="^(once|deny)$", description="`once` allows this very call, `deny` refuses it.")
    ]
    person_token: Annotated[str, Meta(max_length=1_000, description="What only the person knows.")]


class _OpenQuestion:
    """A question that is being answered: who waits for it, and how far it is."""

    def __init__(self, call: McpCall) -> None:
        self.is_stopped = False
        self.actor: SessionActor | None = None
        self._call = call
        self._steps = 0

    def stop(self) -> None:
        """Stop its turn, as soon as there is one."""
        self.is_stopped = True
        if self.actor is not None:
            self.actor.stop()

    def report_step(self, text: str) -> None:
        """Tell the client what is being done."""
        self._steps += 1
        self._call.report_progress(self._steps, None, text)


class AgentQuestions:
    """The tools that ask the agent. The App is opened with the first question; `close` stops all turns and closes
    it.
    """

    def __init__(self, environ: Mapping[str, str], options: McpServeOptions) -> None:
        self._environ = environ
        self._options = options
        self._app: App | None = None
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._open: dict[_OpenQuestion, asyncio.Task[Result]] = {}
        self._approvals: dict[str, tuple[SessionActor, ApprovalAsked]] = {}
        self._wrong_tokens = 0

    def list_tools(self) -> list[ServedTool]:
        """Return the tools: `ask`, and those for approvals where a person has a token."""
        tools = [build_ask_tool(self._ask, asks_person=bool(self._options.person_token))]
        if self._options.person_token:
            tools += [
                ServedTool(
                    name="permissions_list_open",
                    description="List the calls that wait for the owner's yes or no.",
                    schema=build_schema(ListPermissions),
                    answer=self._list_permissions,
                    annotations={"readOnlyHint": True, "openWorldHint": False},
                ),
                ServedTool(
                    name="permissions_respond",
                    description="Answer one such call with a yes for this time, or a no, in the owner's name.",
                    schema=build_schema(RespondToPermission),
                    answer=self._respond,
                    annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False},
                ),
            ]
        return tools

    async def close(self) -> None:
        """Stop what runs, wait for its end, and close the App."""
        for one in self._open:
            one.stop()
        if self._open:
            await asyncio.wait([*self._open.values()])
        await self._stack.aclose()

    async def _ask(self, arguments: Raw, call: McpCall) -> Result:
        given = decode_arguments(arguments, AskQuestion)
        if len(self._open) >= _MAX_OPEN:
            raise BusyError(N_("{n} questions are being answered already.", n=_MAX_OPEN))
        question = _OpenQuestion(call)
        # In a task of its own: however often the request is taken back, the session is closed in order.
        task = self._open[question] = asyncio.create_task(self._answer(question, given.question), name="mcp question")
        task.add_done_callback(lambda _: self._open.pop(question, None))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            question.stop()
            raise
        return task.result()

    async def _answer(self, question: _OpenQuestion, text: str) -> Result:
        app = await self._open_app()
        actor = await app.open_session()
        waiting = actor.subscribe(lambda event: self._note_event(question, actor, event))
        try:
            question.actor = actor
            actor.approvals.can_ask = bool(self._options.person_token)
            ended = actor.post(InboundMessage(text=text))
            if question.is_stopped:
                actor.stop()
            await asyncio.wait({ended})
            return _make_answer(app, actor, ended.result())
        finally:
            waiting()
            for name in [name for name, (owner, _) in self._approvals.items() if owner is actor]:
                del self._approvals[name]
            await app.close_session(actor)

    async def _open_app(self) -> App:
        async with self._opening:
            if self._app is None:
                options = SessionOptions(
                    platform=_PLATFORM,
                    max_cost=self._options.max_cost,
                    max_turns=self._options.max_steps,
                    remembers=False,
                )
                self._app = await self._stack.enter_async_context(App(self._environ, options))
            return self._app

    def _note_event(self, question: _OpenQuestion, actor: SessionActor, event: Event) -> None:
        if isinstance(event, ToolStarted):
            question.report_step(event.name)
        elif isinstance(event, ApprovalAsked):
            self._approvals[event.approval_id] = actor, event
            question.report_step(localize(N_("{tool} waits for the owner's yes or no.", tool=event.tool)))
        elif isinstance(event, ApprovalAnswered):
            self._approvals.pop(event.approval_id, None)

    async def _list_permissions(self, arguments: Raw, call: McpCall) -> Result:
        del call
        decode_arguments(arguments, ListPermissions)
        return make_result({"permissions": [self._describe_approval(one) for _, one in self._approvals.values()]})

    def _describe_approval(self, asked: ApprovalAsked) -> Plain:
        assert self._app is not None
        told = {"tool": asked.tool, "subject": asked.subject, "reason": asked.reason, "once_covers": asked.once_covers}
        safe = {key: self._app.redact_text(localize(text)) for key, text in told.items()}
        return {"approval_id": asked.approval_id, "call_id": asked.call_id, **safe, "folder": asked.cwd}

    async def _respond(self, arguments: Raw, call: McpCall) -> Result:
        del call
        given = decode_arguments(arguments, RespondToPermission)
        self._check_token(given.person_token)
        actor, _ = self._approvals.get(given.approval_id, (None, None))
        if actor is None or not actor.approvals.answer(given.approval_id, scope=_ANSWERS[given.answer], by=_PERSON):
            raise NotFoundError(N_("No call of that id waits for an answer."))
        return make_result({"approval_id": given.approval_id, "answer": given.answer})

    def _check_token(self, given: str) -> None:
        """Raise UsageError for a wrong token, and for any once too many were wrong."""
        is_right = hmac.compare_digest(given.encode("utf-8", "replace"), self._options.person_token.encode())
        if self._wrong_tokens >= _MAX_ATTEMPTS:
            raise UsageError(N_("Too many tokens were wrong: none is taken until the server starts again."))
        if not is_right:
            self._wrong_tokens += 1
            raise UsageError(N_("This is not the person's token."))


def _make_answer(app: App, actor: SessionActor, ended: TurnEnded) -> Result:
    """Return the result of a question: its answer, the session, and why the turn ended."""
    text = EgressTextFilter(app, actor).filter_whole(app.redact_text(ended.text))
    if not text:
        return make_error_result(app.redact_text(localize(ended.error)) or f"No answer: {ended.reason.value}.")
    return make_result({"answer": text, "conversation_id": actor.session_id, "reason": ended.reason.value})
