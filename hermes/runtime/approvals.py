"""Questions to the person, and what becomes of them. No answer, nobody there and no surface to ask on all mean no."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine

from msgspec import structs

from hermes.core.errors import StoreError
from hermes.core.outcomes import AnswerScope
from hermes.store.approvals import ApprovalRow, Given
from hermes.store.store import Store
from hermes.tools.permissions.gate import NOBODY, TIMED_OUT, WITHDRAWN, ApprovalAnswer, ApprovalRequest
from hermes.util.clock import Clock

_LOG = logging.getLogger(__name__)
_LOOK_AGAIN = 0.5
"""Seconds between looks at whether another process has put an answer into the store."""


class Approvals:
    """The questions of one session; an `Approver` for its executor.

    A question is on disk before it is shown, an answer before it counts, and each is taken once, whoever gives it and
    however often. A question whose process died is the same question when its turn goes on. `turn` names the turn that
    runs.
    """

    def __init__(self, store: Store, session_id: str, clock: Clock, *, seconds: float, turn: Callable[[], str]) -> None:
        self._store = store
        self._clock = clock
        self._session_id = session_id
        self._seconds = seconds
        self._turn = turn
        self._pending: dict[str, asyncio.Event] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self.can_ask = False
        """Whether a front-end that can show a question is attached."""
        self.guests = 0
        """Front-ends of other processes that take part, and can show one."""
        self.stays_open = False
        """Whether a question outlives the turn that asks it here: another process goes on with both."""
        self.unasked = 0
        """Questions that were answered with no because nobody could be asked."""

    async def ask(self, request: ApprovalRequest, show: Callable[[ApprovalRequest], None]) -> ApprovalAnswer:
        """Wait for the answer; it is no when nobody can be asked or nobody answers in time."""
        known = await self._store.waiting_approval(self._turn(), request.call_id, request.fingerprint)
        if not (self.can_ask or self.guests) and not (known and await self._store.answered(known)):
            self.unasked += 1
            return ApprovalAnswer(scope=AnswerScope.DENY, by=NOBODY)
        if known:
            request = structs.replace(request, approval_id=known)
        else:
            await self._store.ask_approval(self._row(request))
        answered = self._pending[request.approval_id] = asyncio.Event()
        try:
            show(request)
            async with asyncio.timeout(self._seconds):
                return await self._answer(request.approval_id, answered)
        except TimeoutError:
            await self._drop(request.approval_id, TIMED_OUT)
            return ApprovalAnswer(scope=AnswerScope.DENY, by=TIMED_OUT)
        except asyncio.CancelledError:
            if not self.stays_open:
                self._go(self._drop(request.approval_id, WITHDRAWN))
            raise
        finally:
            self._pending.pop(request.approval_id, None)

    def answer(self, approval_id: str, *, scope: AnswerScope, by: str) -> bool:
        """Answer a pending question of this session; False when there is no such question (any more)."""
        waiting = self._pending.pop(approval_id, None)
        if waiting is None:
            return False
        self._go(self._write(approval_id, Given(scope, by), waiting))
        return True

    async def close(self) -> None:
        """Wait for what is being written."""
        if self._writing:
            await asyncio.wait(self._writing)

    def _go(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, approval_id: str, given: Given, waiting: asyncio.Event) -> None:
        """An answer that cannot be stored does not count: the question then runs out of time, which means no."""
        try:
            await self._store.answer_approval(approval_id, given, session_id=self._session_id)
        except StoreError as error:
            _LOG.warning("an answer could not be stored: %s", error)
        waiting.set()

    async def _drop(self, approval_id: str, why: str) -> None:
        try:
            await self._store.drop_approval(approval_id, why)
        except StoreError as error:
            _LOG.warning("a question could not be closed, and runs out of time: %s", error)

    async def _answer(self, approval_id: str, answered: asyncio.Event) -> ApprovalAnswer:
        """Wait until the answer is in the store, put there by this process or another, and take it."""
        while True:
            if await self._store.answered(approval_id) and (given := await self._store.take_answer(approval_id)):
                return ApprovalAnswer(scope=AnswerScope(given.scope), by=given.by)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN):
                    await answered.wait()
                    answered.clear()

    def _row(self, request: ApprovalRequest) -> ApprovalRow:
        now = self._clock.now()
        return ApprovalRow(
            id=request.approval_id,
            session_id=self._session_id,
            turn_id=self._turn(),
            call_id=request.call_id,
            tool=request.tool,
            subject=request.subject,
            rule=request.rule,
            reason=request.reason,
            cwd=request.cwd,
            seal=request.fingerprint,
            session_covers=request.session_covers,
            always_covers=request.always_covers,
            asked_at=now,
            expires_at=now + self._seconds,
        )
