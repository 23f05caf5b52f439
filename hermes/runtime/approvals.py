"""Questions to the person, and what becomes of them. No answer, nobody there and no surface to ask on all mean no."""

import asyncio

from hermes.tools.gate import NOBODY, TIMED_OUT, Answer, ApprovalRequest


class Approvals:
    """The pending questions of one session; an `Approver` for its executor."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._pending: dict[str, asyncio.Future[Answer]] = {}
        self.can_ask = False
        """Whether a front-end that can show a question is attached."""
        self.unasked = 0
        """Questions that were answered with no because nobody could be asked."""

    async def ask(self, request: ApprovalRequest) -> Answer:
        """Wait for the answer; it is no when nobody can be asked or nobody answers in time."""
        if not self.can_ask:
            self.unasked += 1
            return Answer(allowed=False, by=NOBODY)
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[request.approval_id] = waiting
        try:
            async with asyncio.timeout(self._seconds):
                return await waiting
        except TimeoutError:
            return Answer(allowed=False, by=TIMED_OUT)
        finally:
            del self._pending[request.approval_id]

    def answer(self, approval_id: str, *, allowed: bool, by: str) -> bool:
        """Answer a pending question; False when there is no such question (any more). A question is answered once."""
        waiting = self._pending.get(approval_id)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(Answer(allowed=allowed, by=by))
        return True
