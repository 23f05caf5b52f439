"""Rows of sub-agents: asked for once, ended once, delivered once."""

from pathlib import Path

from hermes.core.chats import Binding, Place, is_beside_key, make_beside_key
from hermes.core.messages import Role, program_message
from hermes.core.sub_agents import SubAgentReport, SubAgentState, SubAgentTask
from hermes.core.usage import Certainty, Cost
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.store.sub_agents import ReportDelivery, StepLimits, SubAgentCall, SubAgentRow
from hermes.testing.clock import ManualClock
from tests.store.store_contract import FRAME

TASKS = [SubAgentTask(goal=f"goal {n}", name=f"name {n}", context="words") for n in range(3)]
LIMITS = StepLimits(each=50, total=120)


async def open_store(folder: Path) -> Store:
    store = await Store.open(folder, ManualClock())
    await store.sessions.create(NewSession(id="top"))
    await store.epochs.begin("top", FRAME, "a new session")
    await store.messages.append("top", 1, None, (program_message(Role.USER, "go"),))
    return store


def make_call(call_id: str = "call", delivery: ReportDelivery = ReportDelivery.INBOX) -> SubAgentCall:
    return SubAgentCall(
        parent_id="top", root_id="top", root_turn_id="turn", depth=1, delivery=delivery, turn_id="turn", call_id=call_id
    )


async def create(store: Store, call: SubAgentCall, *names: str) -> list[SubAgentRow]:
    return await store.sub_agents.create_all(call, names, TASKS[: len(names)], LIMITS)


async def test_a_call_that_is_made_again_gets_what_it_has(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    first = await create(store, make_call(), "a", "b")
    again = await create(store, make_call(), "c", "d")
    assert [row.session_id for row in again] == [row.session_id for row in first] == ["a", "b"]
    await store.messages.append("top", 1, None, (program_message(Role.ASSISTANT, "later"),))
    other = await create(store, make_call(), "c")
    assert [(row.session_id, row.number) for row in other] == [("c", 3)]
    await store.close()


async def test_steps_are_reserved_from_the_beginning_to_the_end_and_what_is_left_counts_then(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    await create(store, make_call(), "a", "b", "c")
    assert [await store.sub_agents.begin(name, LIMITS.total) for name in "abc"] == [50, 50, 20]
    assert await store.sub_agents.begin("a", LIMITS.total) == 50  # again, in another process
    late = await create(store, make_call("other"), "d")
    assert late[0].state is SubAgentState.BUDGET and late[0].ended_at is not None
    assert await store.sub_agents.finish("a", SubAgentState.DONE, SubAgentReport(steps=4))
    assert not await store.sub_agents.finish("a", SubAgentState.FAILED, SubAgentReport(steps=9))
    await create(store, make_call("third"), "e", "f")
    assert [await store.sub_agents.begin(name, LIMITS.total) for name in "ef"] == [46, 0]
    found = await store.sub_agents.get("a")
    assert found is not None and found.state is SubAgentState.DONE
    assert (found.task.name, found.task.goal, found.task.context) == ("name 0", "", "")
    await store.close()


async def test_reports_are_delivered_once(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    await create(store, make_call(), "a", "b")
    assert not await store.sub_agents.deliver("top", "letter", b"{}", ["a", "b"])
    for name in ("a", "b"):
        await store.sub_agents.finish(name, SubAgentState.DONE, SubAgentReport())
    assert [row.session_id for row in await store.sub_agents.list_open("top")] == ["a", "b"]
    assert await store.sub_agents.list_open_roots() == ["top"]
    assert await store.sub_agents.deliver("top", "letter", b"{}", ["a", "b"])
    assert not await store.sub_agents.deliver("top", "second", b"{}", ["a", "b"])
    assert [row.id for row in await store.inbox.list_waiting("top")] == ["letter"]
    assert await store.sub_agents.list_open("top") == [] and await store.sub_agents.list_open_roots() == []
    await store.close()


async def test_the_cost_of_one_holds_that_of_its_own(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    await create(store, make_call(), "a")
    below = SubAgentCall(
        parent_id="a", root_id="top", root_turn_id="turn", depth=2, delivery=ReportDelivery.PERSON, turn_id="t"
    )
    await store.sessions.create(NewSession(id="a"))
    await store.sub_agents.create_all(below, ["b"], TASKS[:1], LIMITS)
    spent = Cost(nano=7, certainty=Certainty.COMPUTED)
    await store.sub_agents.finish("b", SubAgentState.DONE, SubAgentReport(cost=spent))
    assert (await store.sub_agents.sum_cost("a")).nano == 7
    await store.close()


async def test_the_answer_to_reports_goes_to_the_chat_of_the_parent_once(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    place = Place("telegram", "7")
    await store.chats.bind(Binding(key="agent:main:telegram:dm:7", session_id="top", place=place, person="owner"))
    await create(store, make_call(), "a")
    await store.sub_agents.finish("a", SubAgentState.DONE, SubAgentReport())
    for _ in range(2):
        await store.sub_agents.deliver("top", "letter", b"{}", ["a"], to_chat=True)
    (waiting,) = await store.chats.list_unanswered()
    assert (waiting.session_id, waiting.turn_id, waiting.over) == ("top", "", False)
    assert [one.place for one in waiting.arrivals] == [place]
    assert [row.id for row in await store.inbox.list_waiting("top")] == ["letter"]
    await store.close()


async def test_a_session_stays_beside_its_chat_until_nothing_comes_of_it(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    key = make_beside_key("agent:main:telegram:dm:7", "top")
    await store.chats.bind(Binding(key=key, session_id="top", place=Place("telegram", "7"), person="owner"))
    await create(store, make_call(delivery=ReportDelivery.PERSON), "a")
    assert is_beside_key(key) and await store.chats.list_bindings() == []
    await store.chats.forget_beside()
    assert len(await store.chats.list_session_bindings("top")) == 1
    await store.sub_agents.finish("a", SubAgentState.DONE, SubAgentReport())
    await store.chats.forget_beside()
    assert len(await store.chats.list_session_bindings("top")) == 1
    await store.sub_agents.mark_delivered(["a"])
    await store.chats.forget_beside()
    assert await store.chats.list_session_bindings("top") == []
    await store.close()


async def test_a_session_without_words_stays_while_sub_agents_have_worked_for_it(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, ManualClock())
    for name in ("top", "other"):
        await store.sessions.create(NewSession(id=name))
    call = SubAgentCall(parent_id="top", root_id="top", root_turn_id="x", depth=1, delivery=ReportDelivery.PERSON)
    await create(store, call, "a")
    assert [row.session_id for row in await store.sub_agents.list_for_person("top")] == ["a"]
    assert await store.sessions.drop_empty("other") and not await store.sessions.drop_empty("top")
    await store.close()
