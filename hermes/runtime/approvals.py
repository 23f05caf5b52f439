"""Questions to the person, and what becomes of them. No answer, nobody there and no surface to ask on all mean no."""

import asyncio
import os
from collections.abc import Awaitable, Callable

from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event
from hermes.tools.gate import Answer, ApprovalRequest

NOBODY = "nobody there"
TIMED_OUT = "no answer in time"


class Approvals:
    """The pending questions of one session; an `Approver` for its executor."""

    def __init__(self, publish: Callable[[Event], Awaitable[None]], *, seconds: float) -> None:
        self._publish = publish
        self._seconds = seconds
        self._pending: dict[str, asyncio.Future[Answer]] = {}
        self.can_ask = False
        """Whether a front-end that can show a question is attached."""

    async def ask(self, request: ApprovalRequest) -> Answer:
        """Show the question and wait; the answer is no when nobody can be asked or nobody answers in time."""
        if not self.can_ask:
            return Answer(allowed=False, by=NOBODY)
        approval_id = "ask_" + os.urandom(6).hex()
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[approval_id] = waiting
        try:
            await self._publish(
                ApprovalAsked(
                    approval_id=approval_id,
                    call_id=request.call_id,
                    tool=request.tool,
                    subject=request.decision.subject,
                    rule=request.decision.rule,
                    reason=request.decision.reason,
                )
            )
            async with asyncio.timeout(self._seconds):
                answer = await waiting
        except TimeoutError:
            answer = Answer(allowed=False, by=TIMED_OUT)
        finally:
            del self._pending[approval_id]
        await self._publish(ApprovalAnswered(approval_id=approval_id, allowed=answer.allowed, by=answer.by))
        return answer

    def answer(self, approval_id: str, *, allowed: bool, by: str) -> bool:
        """Answer a pending question; False when there is no such question (any more). A question is answered once."""
        waiting = self._pending.get(approval_id)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(Answer(allowed=allowed, by=by))
        return True
