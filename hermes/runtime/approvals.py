"""A session's approval prompts and their answers. Without an answer, a person or a front-end, the answer is no."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.core.encoding import escape_fields
from hermes.core.errors import StoreError
from hermes.core.outcomes import AnswerScope
from hermes.store.store import Store
from hermes.tools.permissions.gate import NOBODY, TIMED_OUT, WITHDRAWN, ApprovalAnswer, ApprovalRequest
from hermes.util.clock import Clock

if TYPE_CHECKING:
    from hermes.store.approvals import ApprovalRow, StoredApprovalAnswer

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.5
"""Seconds between checks whether another process has put an answer into the store."""


class SessionApprovals:
    """The approval prompts of one session; an `Approver` for its executor.

    A prompt is on disk before it is shown, an answer before it counts, and each is taken once, whoever gives it and
    however often. A prompt whose process died is the same prompt when its turn is resumed. `turn` returns the id of the
    running turn.
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
        """Whether a front-end that can show a prompt is attached."""
        self.guests = 0
        """The number of front-ends in other processes that are attached and can show a prompt."""
        self.stays_open = False
        """Whether a prompt outlives the turn that shows it here: another process resumes both."""
        self.parent: SessionApprovals | None = None
        """Of a sub-agent: the prompts of its parent, whose person answers its own, too."""
        self.relayed: dict[str, SessionApprovals] = {}
        """The prompts of sub-agents that are shown here, by their ids, each with whose it is."""
        self.unasked = 0
        """The number of prompts that were answered with no because nobody could be asked."""

    @property
    def is_attended(self) -> bool:
        """Whether somebody can be asked, here or where the session at the top of the tree is shown."""
        return self.can_ask or self.guests > 0 or (self.parent is not None and self.parent.is_attended)

    @property
    def is_waiting(self) -> bool:
        """Whether a prompt of this session waits for its answer."""
        return bool(self._pending)

    async def ask(self, request: ApprovalRequest, show: Callable[[ApprovalRequest], None]) -> ApprovalAnswer:
        """Wait for the answer; it is no when nobody can be asked or nobody answers in time."""
        request = escape_fields(request)
        known = await self._store.approvals.find_open(self._turn(), request.call_id, request.fingerprint)
        if not self.is_attended and not (known and await self._store.approvals.has_answer(known)):
            self._count_unasked()
            return ApprovalAnswer(scope=AnswerScope.DENY, by=NOBODY)
        if known:
            request = structs.replace(request, approval_id=known)
        else:
            await self._store.approvals.create(self._make_row(request))
        answered = self._pending[request.approval_id] = asyncio.Event()
        self._relay(request.approval_id, self)
        try:
            show(request)
            async with asyncio.timeout(self._seconds):
                return await self._wait_for_answer(request.approval_id, answered)
        except TimeoutError:
            await self._close_question(request.approval_id, TIMED_OUT)
            return ApprovalAnswer(scope=AnswerScope.DENY, by=TIMED_OUT)
        except asyncio.CancelledError:
            if not self.stays_open:
                self._start_write(self._close_question(request.approval_id, WITHDRAWN))
            raise
        finally:
            self._pending.pop(request.approval_id, None)
            self._relay(request.approval_id, None)

    def answer(self, approval_id: str, *, scope: AnswerScope, by: str) -> bool:
        """Answer a pending prompt of this session; return False when it is not pending any more."""
        waiting = self._pending.pop(approval_id, None)
        if waiting is None:
            owner = self.relayed.get(approval_id)
            return owner is not None and owner.answer(approval_id, scope=scope, by=by)
        from hermes.store.approvals import StoredApprovalAnswer

        self._start_write(self._write_answer(approval_id, StoredApprovalAnswer(scope, by), waiting))
        return True

    async def close(self) -> None:
        """Wait for pending writes."""
        if self._writing:
            await asyncio.wait(self._writing)

    def _relay(self, approval_id: str, owner: "SessionApprovals | None") -> None:
        """Let every session above answer a prompt in the place of its owner; None: it is over."""
        above = self.parent
        while above is not None:
            if owner is None:
                above.relayed.pop(approval_id, None)
            else:
                above.relayed[approval_id] = owner
            above = above.parent

    def _count_unasked(self) -> None:
        """Count a prompt that nobody could be asked, here and in the sessions above: they end with it."""
        counted: SessionApprovals | None = self
        while counted is not None:
            counted.unasked += 1
            counted = counted.parent

    def _start_write(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write_answer(self, approval_id: str, given: "StoredApprovalAnswer", waiting: asyncio.Event) -> None:
        """Store an answer. One that cannot be stored does not count: the prompt then times out, which means no."""
        try:
            await self._store.approvals.answer(approval_id, given, session_id=self._session_id)
        except StoreError as error:
            _LOG.warning("an answer could not be stored: %s", error)
        waiting.set()

    async def _close_question(self, approval_id: str, why: str) -> None:
        try:
            await self._store.approvals.close(approval_id, why)
        except StoreError as error:
            _LOG.warning("a question could not be closed, and runs out of time: %s", error)

    async def _wait_for_answer(self, approval_id: str, answered: asyncio.Event) -> ApprovalAnswer:
        """Wait until the answer is in the store, put there by this process or another, and take it."""
        while True:
            if await self._store.approvals.has_answer(approval_id) and (
                given := await self._store.approvals.take_answer(approval_id)
            ):
                return ApprovalAnswer(scope=AnswerScope(given.scope), by=given.by)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await answered.wait()
                    answered.clear()

    def _make_row(self, request: ApprovalRequest) -> "ApprovalRow":
        from hermes.store.approvals import ApprovalRow

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
