"""Questions that outlive their process: asked once, answered once, by whoever may, and no when nobody does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.core.outcomes import AnswerScope
from hermes.runtime.approvals import SessionApprovals
from hermes.store.approvals import StoredApprovalAnswer
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.tools.permissions.gate import NOBODY, TIMED_OUT, ApprovalAnswer, ApprovalRequest
from hermes.util.clock import SystemClock

ASKED = ApprovalRequest(
    approval_id="a1",
    call_id="c1",
    tool="terminal",
    subject="rm -r old",
    rule="r",
    reason="it deletes",
    fingerprint="s1",
)


@asynccontextmanager
async def opened(folder: Path, *sessions: str) -> AsyncIterator[Store]:
    store = await Store.open(folder, SystemClock())
    try:
        for name in sessions:
            row = NewSession(id=name, source="cli", provider="p", model="m", cwd="/")
            if await store.sessions.get(name) is None:
                await store.sessions.create(row)
        yield store
    finally:
        await store.close()


def asker(store: Store, session: str = "s", *, seconds: float = 20, turn: str = "t1") -> SessionApprovals:
    made = SessionApprovals(store, session, SystemClock(), seconds=seconds, turn=lambda: turn)
    made.can_ask = True
    return made


async def shown(
    approvals: SessionApprovals, request: ApprovalRequest = ASKED
) -> tuple["asyncio.Task[ApprovalAnswer]", str]:
    """A question under way, and the id by which it is shown."""
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(approvals.ask(request, lambda one: seen.set_result(one.approval_id)))
    return task, await seen


async def test_a_question_is_on_disk_when_it_is_shown_and_its_words_go_with_the_answer(tmp_path: Path) -> None:
    async with opened(tmp_path, "s") as store:
        approvals = asker(store)
        task, name = await shown(approvals)
        (row,) = await store.approvals.list_pending()
        assert (row.id, row.subject, row.turn_id) == (name, "rm -r old", "t1")
        assert approvals.answer(name, scope=AnswerScope.ONCE, by="person")
        assert (await task).allowed
        assert not approvals.answer(name, scope=AnswerScope.ONCE, by="person")
        assert await store.approvals.list_pending() == []
        await approvals.close()
    assert b"rm -r old" not in (tmp_path / "hermes.db").read_bytes()


async def test_of_many_answers_at_once_one_counts_and_it_is_taken_once(tmp_path: Path) -> None:
    async with opened(tmp_path, "s") as store, opened(tmp_path, "s") as other:
        approvals = asker(store)
        task, name = await shown(approvals)
        scopes = [StoredApprovalAnswer("once", "person"), StoredApprovalAnswer("deny", "person")] * 8
        said = await asyncio.gather(*(other.approvals.answer(name, one) for one in scopes))
        assert said.count(True) == 1
        answer = await task
        assert answer.scope == scopes[said.index(True)].scope
        assert await asyncio.gather(*(other.approvals.take_answer(name) for _ in range(8))) == [None] * 8


async def test_another_sessions_question_is_not_answered(tmp_path: Path) -> None:
    async with opened(tmp_path, "s", "mallory") as store:
        task, name = await shown(asker(store))
        assert not asker(store, "mallory").answer(name, scope=AnswerScope.ONCE, by="mallory")
        assert not await store.approvals.answer(name, StoredApprovalAnswer("once", "mallory"), session_id="mallory")
        assert await store.approvals.answer(name, StoredApprovalAnswer("deny", "person"), session_id="s")
        assert not (await task).allowed


async def test_a_question_whose_process_died_is_the_same_question_afterwards(tmp_path: Path) -> None:
    async with opened(tmp_path, "s") as store:
        await store.approvals.create(asker(store)._make_row(ASKED))
    async with opened(tmp_path) as store:
        (row,) = await store.approvals.list_pending()
        assert await store.approvals.answer(row.id, StoredApprovalAnswer("once", "person"))
        again = ApprovalRequest(**{**_fields(ASKED), "approval_id": "a2"})
        assert (await asker(store).ask(again, lambda _: None)).allowed
        # It was for one call, once: the same call again is another question, as is what has changed meanwhile.
        late = asker(store, seconds=0.1)
        assert (await late.ask(again, lambda _: None)).by == TIMED_OUT


async def test_an_answer_is_not_for_a_call_that_has_changed(tmp_path: Path) -> None:
    async with opened(tmp_path, "s") as store:
        await store.approvals.create(asker(store)._make_row(ASKED))
        assert await store.approvals.answer("a1", StoredApprovalAnswer("once", "person"))
        changed = ApprovalRequest(**{**_fields(ASKED), "approval_id": "a2", "fingerprint": "s2"})
        assert (await asker(store, seconds=0.1).ask(changed, lambda _: None)).by == TIMED_OUT


async def test_no_answer_in_time_is_a_no_for_good(tmp_path: Path) -> None:
    async with opened(tmp_path, "s") as store:
        approvals = asker(store, seconds=0.05)
        answer = await approvals.ask(ASKED, lambda _: None)
        assert (answer.allowed, answer.by) == (False, TIMED_OUT)
        assert not await store.approvals.answer("a1", StoredApprovalAnswer("once", "person"))


async def test_nobody_there_is_a_no_and_nothing_is_stored(tmp_path: Path) -> None:
    async with opened(tmp_path, "s") as store:
        approvals = asker(store)
        approvals.can_ask = False
        answer = await approvals.ask(ASKED, lambda _: None)
        assert (answer.allowed, answer.by, approvals.unasked) == (False, NOBODY, 1)
        assert await store.approvals.list_pending() == []


async def test_a_stopped_turn_takes_its_question_back(tmp_path: Path) -> None:
    async with opened(tmp_path, "s") as store:
        approvals = asker(store)
        task, name = await shown(approvals)
        task.cancel()
        await asyncio.wait({task})
        await approvals.close()
        assert not await store.approvals.answer(name, StoredApprovalAnswer("once", "person"))


def _fields(request: ApprovalRequest) -> dict[str, str]:
    return {name: getattr(request, name) for name in ApprovalRequest.__struct_fields__}
