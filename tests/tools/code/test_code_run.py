"""A run of code goes on in another process at the very call at which its own has died."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from hermes.core.events import ApprovalAsked
from hermes.core.messages import ToolStatus
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.tools.code.run_seal import seal_state
from tests.tools.code.durable_session import TURN, DurableSession, Effects

CODE = """
found = []
for name in ("a", "b", "c"):
    found.append(look(text=name))
    print("seen", name)
found.append(act(text="x"))
print(found)
"""
WHOLE = "seen a\nseen b\nseen c\n['did a', 'did b', 'did c', 'did x']"


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[DurableSession]:
    session = await DurableSession.open(tmp_path.resolve(), Effects())
    yield session
    await session.context.backend.close()
    await session.store.close()


async def test_it_runs_through(made: DurableSession) -> None:
    await made.ask(CODE)
    assert (await made.result()).text == WHOLE
    assert made.effects.done == ["a", "b", "c", "x"]
    assert await made.store.code_runs.get(TURN, "c") is not None
    await made.store.turns.end(TURN, ExitReason.TEXT_RESPONSE)
    assert await made.store.code_runs.get(TURN, "c") is None


async def test_a_repeatable_call_under_way_is_made_again_and_no_other(made: DurableSession) -> None:
    await made.ask(CODE)
    made.effects.held = "b"
    await made.die(made.live())
    assert (await made.result()).text == WHOLE
    # What was not on disk yet may be looked at again; what is there is not.
    assert made.effects.done in (["a", "b", "c", "x"], ["a", "a", "b", "c", "x"])


async def test_a_call_under_way_that_may_have_happened_is_told_as_such_and_never_repeated(made: DurableSession) -> None:
    await made.ask(CODE.replace('found.append(act(text="x"))', TOLERANT))
    made.effects.held = "x"
    await made.die(made.live())
    result = await made.result()
    assert "unknown: The program ended while this call of act was under way" in result.text
    assert made.effects.done == ["a", "b", "c", "y"]


TOLERANT = """
try:
    found.append(act(text="x"))
except OutcomeUnknown as why:
    print("unknown:", why)
    found.append(act(text="y"))
"""


async def test_what_has_an_effect_is_on_disk_with_the_state_before_it_begins(made: DurableSession) -> None:
    await made.ask(CODE)
    made.effects.held = "x"
    life = made.live()
    async with asyncio.timeout(20):
        await made.effects.begun.wait()
    stored = await made.store.code_runs.get(TURN, "c")
    assert stored is not None
    assert stored.state.calls == 3
    assert stored.state.printed == "seen a\nseen b\nseen c\n"
    assert [stored.effects[f"c.{number}"].tool for number in (1, 2, 3, 4)] == ["look", "look", "look", "act"]
    assert stored.effects["c.4"].result is None
    await made.die(life)


async def test_calls_made_at_once_go_on_with_those_that_are_known(made: DurableSession) -> None:
    await made.ask(
        'for one in at_once([("act", {"text": "x"}), ("act", {"text": "y"}), ("act", {"text": "z"})]): print(one)'
    )
    made.effects.held = "y"
    await made.die(made.live())
    assert (await made.result()).text.split("\n")[0] == "did x"
    assert sorted(made.effects.done) in (["x", "z"], ["x"])


async def test_another_version_of_the_interpreter_repeats_the_run_with_what_is_known(made: DurableSession) -> None:
    await made.ask('a = act(text="x")\nb = act(text="y")\nprint(a, b)\nlook(text="z")')
    made.effects.held = "z"
    await made.die(made.live())
    await made.change_state(lambda state: seal(made, structs.replace(state, version="1.3.0", dump=b"of another form")))
    assert (await made.result()).text == "did x did y\ndid z"
    assert made.effects.done == ["x", "y", "z"]


async def test_a_repeated_run_that_does_something_else_is_ended_by_name(made: DurableSession) -> None:
    await made.ask('a = act(text="x")\nlook(text="z")')
    made.effects.held = "z"
    await made.die(made.live())
    changed = lambda state: structs.replace(state, version="1.3.0", asked=("0" * 24, *state.asked[1:]))  # noqa: E731
    await made.change_state(lambda state: seal(made, changed(state)))
    result = await made.result()
    assert result.status is ToolStatus.UNCERTAIN
    assert "it does not do the same again" in result.text
    assert '- act {"text":"x"}: ok' in result.text
    assert made.effects.done == ["x"]


async def test_a_repeated_run_that_ends_too_early_is_ended_by_name(made: DurableSession) -> None:
    await made.ask('a = act(text="x")\nlook(text="z")')
    made.effects.held = "z"
    await made.die(made.live())
    longer = lambda state: structs.replace(state, version="1.3.0", asked=(*state.asked, "0" * 24), calls=3)  # noqa: E731
    await made.change_state(lambda state: seal(made, longer(state)))
    result = await made.result()
    assert result.status is ToolStatus.UNCERTAIN
    assert made.effects.done == ["x"]


@pytest.mark.parametrize("field", ["dump", "printed", "mac", "sources", "asked", "calls", "closed"])
async def test_a_state_that_somebody_has_changed_is_not_gone_on_with(made: DurableSession, field: str) -> None:
    await made.ask('act(text="x")\nlook(text="z")')
    made.effects.held = "z"
    await made.die(made.live())
    values = {"dump": b"x", "printed": "x", "mac": b"x", "sources": ("web:x",), "asked": (), "calls": 0}
    await made.change_state(
        lambda state: (
            structs.replace(state, **{field: values.get(field, ())})
            if field != "closed"
            else structs.replace(state, version="9")
        )
    )
    result = await made.result()
    assert result.status is ToolStatus.UNCERTAIN
    assert "is not what this Hermes has written" in result.text
    assert made.effects.done == ["x"]


async def test_another_home_s_state_is_not_gone_on_with(made: DurableSession) -> None:
    await made.ask('act(text="x")\nlook(text="z")')
    made.effects.held = "z"
    await made.die(made.live())
    key = made.context.code.key_file
    assert key is not None
    assert key.stat().st_mode & 0o777 == 0o600
    key.unlink()
    assert (await made.result()).status is ToolStatus.UNCERTAIN


async def test_what_the_calls_returned_before_counts_after_a_restart(made: DurableSession) -> None:
    await made.ask('act(text="x")\nlook(text="z")')
    made.effects.held = "z"
    await made.die(made.live())
    await made.change_state(lambda state: seal(made, structs.replace(state, sources=("web:evil.example",))))
    result = await made.result()
    assert made.context.state.taint.list_sources() == ("web:evil.example",)
    assert result.provenance is not None
    assert result.provenance.is_untrusted
    assert result.provenance.label == "web:evil.example"


async def test_a_question_asked_inside_code_is_the_same_one_after_a_restart(made: DurableSession) -> None:
    kept = made.context.state.cwd / "kept"
    kept.write_text("x")
    await made.ask('act(text="x")\nprint(terminal(command="rm -rf kept"))\nlook(text="y")')
    before = made.approvals()
    before.can_ask = before.stays_open = True
    made.approver = before
    life = made.live()
    asked = await made.next_question()
    life.cancel()
    await asyncio.wait((life,))
    await before.close()
    made.fence = await made.store.turns.adopt(TURN)
    from hermes.store.approvals import StoredApprovalAnswer

    assert await made.store.approvals.answer(asked.approval_id, StoredApprovalAnswer(AnswerScope.ONCE, "person"))
    after = made.approvals()
    made.approver = after
    result = await made.result()
    assert "exit code 0" in result.text
    assert not kept.exists()
    assert made.effects.done == ["x", "y"]
    assert [one.call_id for one in made.events if isinstance(one, ApprovalAsked)] == ["c.2"] * 2
    assert len({one.approval_id for one in made.events if isinstance(one, ApprovalAsked)}) == 1


async def test_python_itself_cannot_go_on_and_says_what_it_has_done(made: DurableSession) -> None:
    made.context = structs.replace(made.context, code=structs.replace(made.context.code, engine="python"))
    await made.ask('act(text="x")\nlook(text="y")')
    made.effects.held = "y"
    await made.die(made.live())
    result = await made.result()
    assert result.status is ToolStatus.UNCERTAIN
    assert "Python itself cannot be stored" in result.text
    assert '- act {"text":"x"}: ok' in result.text
    assert made.effects.done == ["x"]


def seal(made: DurableSession, state: object) -> object:
    import json

    key = made.context.code.key_file
    assert key is not None
    code = json.loads(made.call.arguments)["code"]
    return seal_state(state, key.read_bytes(), "s", "c", code)  # type: ignore[arg-type]
