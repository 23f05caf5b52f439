"""Branches: a session of one's own that continues the very prefix of another, and the tree that they make."""

import pytest

from hermes.admin.sessions import open_session_admin
from hermes.core.errors import UsageError
from hermes.core.events import EpochBegan
from hermes.runtime.mailbox import InboundMessage
from hermes.store.records import MessageState
from hermes.testing.prefix import check_prefixes
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Reply, Say
from tests.forked_hermes import run_hermes
from tests.sessions.test_undo import WIRES, run, sitting


@pytest.mark.parametrize("wire", WIRES)
async def test_a_branch_continues_the_exact_prefix(wire: str) -> None:
    replies: list[Reply] = [Say("one", reasoning="hm"), run("echo x"), Say("two"), Say("left"), Say("right"), Say("x")]
    async with sitting(replies, api_mode=wire) as here:
        await here.say("first")
        await here.say("second")
        made = await here.desk.create_branch("a try")
        again = await here.desk.create_branch()
        assert (made.title, made.parent, made.turns) == ("a try", here.actor.session_id, 2)
        await here.say("left")
        seen: list[EpochBegan] = []
        bodies = []
        for one in (made, again):
            other = await here.app.open_session(one.id)
            other.subscribe(lambda event: seen.append(event) if isinstance(event, EpochBegan) else None)
            await other.post(InboundMessage(text="right", cwd=str(here.work)))
            await here.app.close_session(other)
            bodies.append(here.server.requests[-1].body)
        requests = here.server.requests
        assert bodies[0] == bodies[1] and seen == []
        check_prefixes([requests[2], requests[4]])
        check_prefixes([requests[2], requests[3]])
        shared = requests[3].body.find(b"left")
        assert requests[4].body[: shared - 40] == requests[3].body[: shared - 40]
        assert find_problems(requests[4]) == []


async def test_a_branch_of_the_first_turns_leaves_the_rest_out() -> None:
    replies: list[Reply] = [Say("one"), Say("two"), Say("three"), Say("four")]
    async with sitting(replies) as here:
        for text in ("first", "second", "third"):
            await here.say(text)
        made = await here.desk.create_branch(turns=1)
        assert made.title == "first (branch)"
        with pytest.raises(UsageError):
            await here.desk.create_branch(turns=4)
        other = await here.app.open_session(made.id)
        assert [one.text for one in other.conversation.messages] == ["first", "one"]
        await other.post(InboundMessage(text="else"))
        check_prefixes([here.server.requests[0], here.server.requests[-1]])
        assert b"second" not in here.server.requests[-1].body
        store = here.app._services.store
        assert [row.state for row in await store.messages.read(made.id, everything=True)] == [MessageState.ACTIVE] * 4
        assert {hit.session_id for hit in await store.search.find("first")} == {here.actor.session_id}
        undone = await here.app.session_undo(other).undo_turns(2)
        assert undone.text == "first"
        assert not await store.check_integrity()


async def test_what_was_condensed_is_condensed_in_the_branch_and_can_be_put_back() -> None:
    replies: list[Reply] = [*(Say(f"answer {n} " * 80) for n in range(5)), Say("## Goal\nnotes"), Say("six"), Say("b")]
    async with sitting(replies, more={"compression": {"in_place": False}}) as here:
        for number in range(5):
            await here.say(f"question {number}")
        assert await here.actor.compress()
        await here.say("five")
        made = await here.desk.create_branch()
        other = await here.app.open_session(made.id)
        await other.post(InboundMessage(text="right", cwd=str(here.work)))
        check_prefixes([here.server.requests[-2], here.server.requests[-1]])
        assert await other.compress(undo=True)
        words = [one.text for one in other.conversation.messages if not one.synthetic]
        assert [one for one in words if one.startswith("question")] == [f"question {n}" for n in range(5)]
        done = await here.desk.undo_turns(2)
        assert not done.redo and done.text == "question 4"
        assert [one.text for one in here.actor.conversation.messages][-2] == "question 3"
        tree = await here.app._services.store.branches.build_tree(10)
        assert [(row.id, parent) for row, parent in tree] == [
            (here.actor.session_id, None),
            (made.id, here.actor.session_id),
        ]


async def test_the_list_tells_branches_from_archives() -> None:
    async with sitting([Say("one"), Say("two"), Say("three")]) as here:
        await here.say("first")
        made = await here.desk.create_branch()
        other = await here.app.open_session(made.id)
        await other.post(InboundMessage(text="more"))
        below = await here.app.session_undo(other).create_branch("deep")
        async with open_session_admin(here.home.environ) as sessions:
            kinds = {row["id"]: row["kind"] for row in await sessions.list_newest(10)}
            assert kinds == {here.actor.session_id: "", made.id: "branch", below.id: "branch"}
            (root,) = await sessions.list_tree(10)
            assert root.id == here.actor.session_id
            assert [one.id for one in root.branches] == [made.id]
            assert [(one.id, one.title, one.turns) for one in root.branches[0].branches] == [(below.id, "deep", 2)]
        shown = await run_hermes(here.home, "sessions", "tree")
        lines = shown.stdout.splitlines()
        assert shown.code == 0 and len(lines) == 3
        assert lines[0].startswith(root.id) and lines[1].startswith(f"└─ {made.id}")
        assert lines[2].startswith(f"   └─ {below.id}") and lines[2].endswith("after turn 2  deep")
        listed = await run_hermes(here.home, "sessions", "list")
        assert "first (branch) (branch)" in listed.stdout
