"""Changes of memories: written, held, approved, undone; crashes and several processes."""

import asyncio
import sys
from pathlib import Path

import pytest

from hermes.core.errors import HermesError, NotFoundError, UsageError
from hermes.memory.files import EntryChange, MemoryTarget
from hermes.memory.journal import ChangeOrigin, MemoryJournal, MemoryOperation, change_from_revision
from hermes.store.revisions import NewRevision, RevisionAuthor, RevisionState
from hermes.testing.home import TempHome
from tests.memory.memory_rig import MODEL, M, journal


def add(text: str) -> MemoryOperation:
    return MemoryOperation(action="add", content=text)


async def write(memories: MemoryJournal, *operations: MemoryOperation) -> tuple[int, ...]:
    return (await memories.write_operations(M, operations, MODEL)).ids


async def states(memories: MemoryJournal) -> dict[int, str]:
    return {one.id: str(one.state) for one in await memories.list_revisions()}


async def test_entries_are_added_replaced_and_removed_at_once_or_not_at_all(tmp_path: Path) -> None:
    async with journal(tmp_path) as memories:
        await write(memories, add("one"), add("two"), add("two"))
        ids = await write(
            memories,
            MemoryOperation(action="replace", old_text="on", content="uno"),
            MemoryOperation(action="replace", old_text="uno", content="eins"),
            MemoryOperation(action="remove", old_text="two"),
            add("three"),
        )
        assert await memories.read_entries(M) == ("eins", "three")
        made = [change_from_revision(await memories.get_revision(one)) for one in ids]
        assert made == [EntryChange(M, "one", "eins"), EntryChange(M, "two", None), EntryChange(M, None, "three")]
        with pytest.raises(UsageError, match=r"Operation 2: .*no entry .*Nothing was done"):
            await write(memories, add("four"), MemoryOperation(action="remove", old_text="five"))
        assert await memories.read_entries(M) == ("eins", "three")
        assert (await memories.write_operations(M, (add(" three "),), MODEL)).known == ("three",)
        assert (tmp_path / "memories/MEMORY.md").read_text() == "eins\n§\nthree"


async def test_what_cannot_be_done_says_why(tmp_path: Path) -> None:
    async with journal(tmp_path) as memories:
        await write(memories, add("tea in the morning"), add("tea at night"))
        for operation, said in (
            (add("  "), "needs words"),
            (add("a\n§\nb"), "line of nothing but §"),
            (MemoryOperation(action="replace", old_text="tea", content="x"), "is in 2 entries.*morning.*night"),
            (MemoryOperation(action="remove"), "old_text is needed"),
            (MemoryOperation(action="replace", old_text="night", content="tea in the morning"), "already"),
        ):
            with pytest.raises(UsageError, match=f"(?s){said}"):
                await write(memories, operation)
        with pytest.raises(NotFoundError):
            await memories.get_revision(99)


async def test_over_the_limit_is_refused_with_what_could_go(tmp_path: Path) -> None:
    async with journal(tmp_path, limit=40) as memories:
        await write(memories, add("a" * 20))
        with pytest.raises(UsageError) as caught:
            await write(memories, add("b" * 20))
        assert "43/40 characters, 3 too many" in str(caught.value) and "- " + "a" * 20 in str(caught.value)
        await write(memories, MemoryOperation(action="replace", old_text="aaa", content="a"), add("b" * 20))
        (tmp_path / "memories/MEMORY.md").write_text("c" * 50 + "\n§\n" + "d" * 50)
        await write(memories, MemoryOperation(action="replace", old_text="ddd", content="d" * 45))
        assert await memories.read_entries(M) == ("c" * 50, "d" * 45)


async def test_secrets_are_left_out_and_placeholders_refused(tmp_path: Path) -> None:
    secret = "zq" + "8Kd02nVx" * 3
    async with journal(tmp_path, secrets={"DEPLOY_TOKEN": secret}) as memories:
        await write(memories, add(f"deploy with {secret}"))
        assert (tmp_path / "memories/MEMORY.md").read_text() == "deploy with [secret:DEPLOY_TOKEN]"
        with pytest.raises(UsageError, match="placeholder"):
            await write(memories, add("push with [secret:DEPLOY_TOKEN]"))
        shorter = MemoryOperation(action="replace", old_text="deploy with", content="use [secret:DEPLOY_TOKEN]")
        await write(memories, shorter)
        assert await memories.read_entries(M) == ("use [secret:DEPLOY_TOKEN]",)
        assert all(secret.encode() not in (one.after or b"") for one in await memories.list_revisions())


async def test_a_held_change_waits_and_is_looked_at_again_when_the_yes_comes(tmp_path: Path) -> None:
    async with journal(tmp_path, limit=30) as memories:
        await write(memories, add("one"))
        origin = ChangeOrigin(
            author=RevisionAuthor.REVIEW, reason="said so", sources=("web:a.example",), session_id="s"
        )
        replacing = MemoryOperation(action="replace", old_text="one", content="uno")
        first, second = (await memories.hold_operations(M, (replacing, add("two")), origin)).ids
        assert (await memories.hold_operations(M, (add("two"),), origin)).ids == (second,)
        assert await memories.read_entries(M) == ("one",)
        assert [one.id for one in await memories.list_pending()] == [second, first]
        assert (await memories.approve_change(first, "person")).state is RevisionState.APPLIED
        with pytest.raises(UsageError, match="does not wait: it is applied"):
            await memories.approve_change(first, "person")
        third = await memories.propose_change(EntryChange(M, "uno", "eins"), origin)
        await write(memories, MemoryOperation(action="remove", old_text="uno"), add("x" * 28))
        with pytest.raises(UsageError, match="34/30"):
            await memories.approve_change(second, "person")
        with pytest.raises(UsageError, match="no longer"):
            await memories.approve_change(third, "person")
        assert (await memories.reject_change(second, "person")).decided_by == "person"
        with pytest.raises(UsageError, match="does not wait"):
            await memories.reject_change(second, "person")
        assert [one.id for one in await memories.list_pending()] == [third]


async def test_an_undo_touches_nothing_else(tmp_path: Path) -> None:
    async with journal(tmp_path) as memories:
        (added,) = await write(memories, add("one"))
        (replaced,) = await write(memories, MemoryOperation(action="replace", old_text="one", content="uno"))
        await write(memories, add("two"))
        with pytest.raises(UsageError, match="no longer"):
            await memories.undo_change(added, "person")
        await memories.undo_change(replaced, "person")
        assert await memories.read_entries(M) == ("one", "two")
        await memories.undo_change(added, "person")
        (removed,) = await write(memories, MemoryOperation(action="remove", old_text="two"))
        await write(memories, add("three"))
        await memories.undo_change(removed, "person")
        assert await memories.read_entries(M) == ("three", "two")
        with pytest.raises(UsageError, match="it is undone"):
            await memories.undo_change(removed, "person")


@pytest.mark.parametrize("by", ["", "person", "undo: person"])
@pytest.mark.parametrize("written", [True, False])
async def test_what_a_dead_process_was_at_is_settled_by_the_file(tmp_path: Path, by: str, *, written: bool) -> None:
    async with journal(tmp_path) as memories:
        if written:
            await write(memories, add("new"))
        row = NewRevision(kind="memory", name="memory", author=RevisionAuthor.MODEL, before=None, after=b"new")
        number = await memories._store.revisions.add(row, RevisionState.PENDING)
        expecting = (RevisionState.PENDING,)
        await memories._store.revisions.transition(number, RevisionState.APPLYING, expecting=expecting, by=by)
        await memories.settle_interrupted()
        undone = (
            RevisionState.UNDONE if by.startswith("undo") else RevisionState.PENDING if by else RevisionState.REJECTED
        )
        assert (await memories.get_revision(number)).state is (RevisionState.APPLIED if written else undone)
        await memories.settle_interrupted()


async def test_a_write_that_fails_leaves_a_row_that_says_so(tmp_path: Path) -> None:
    async with journal(tmp_path) as memories:
        (number,) = (await memories.hold_operations(M, (add("held"),), MODEL)).ids
        (tmp_path / "memories").write_text("a file in its place")
        with pytest.raises(HermesError, match="cannot be"):
            await write(memories, add("one"))
        with pytest.raises(HermesError, match="cannot be"):
            await memories.approve_change(number, "person")
        assert (await states(memories))[number] == "pending"
        (tmp_path / "memories").unlink()
        await memories.approve_change(number, "person")
        assert await memories.read_entries(M) == ("held",)


async def test_a_target_that_is_off_is_refused(tmp_path: Path) -> None:
    async with journal(tmp_path) as memories:
        del memories.notebooks[MemoryTarget.USER]  # type: ignore[attr-defined]
        with pytest.raises(UsageError, match="switched off"):
            await memories.write_operations(MemoryTarget.USER, (add("x"),), MODEL)


async def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    script = Path(__file__).with_name("many_writes.py")
    with TempHome() as home:
        runs = [home.run(sys.executable, str(script), str(tmp_path), name, "50") for name in ("left", "right")]
        done = await asyncio.gather(*runs)
    assert [(one.code, one.stderr) for one in done] == [(0, "")] * 2
    async with journal(tmp_path, limit=100_000) as memories:
        entries = await memories.read_entries(M)
        assert {*entries} == {f"{name} saw {number}" for name in ("left", "right") for number in range(50)}
        assert [one for one in entries if one.startswith("left")] == [f"left saw {number}" for number in range(50)]
        assert {*(await states(memories)).values()} == {"applied"}
