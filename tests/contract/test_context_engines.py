"""What holds for every context engine, built in or not."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pytest

from hermes.config.settings import CompressionSettings
from hermes.context.engine import (
    Compaction,
    CompactionRequest,
    CompactionTrigger,
    ContextEngine,
    ContextLoad,
    EngineFactory,
    EngineSetup,
    NoCompaction,
    list_engine_names,
    open_engine,
)
from hermes.context.pins import estimate_message_tokens
from hermes.core.events import Event
from hermes.core.messages import Message, Role, TextPart, ToolCallPart, ToolResultPart, program_message, user_message
from hermes.llm.client import SideTask
from hermes.plugins import PACKAGES
from hermes.store.records import MessageState, StoredMessage
from hermes.store.store import Store
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, Tool, ToolOutput, tool
from hermes.util.clock import SystemClock


class Stub:
    """The smallest engine: the oldest half gives way to a line."""

    name = "stub"

    def on_usage(self, counted: int, estimated: int) -> None:
        """Not looked at."""

    def should_compress(self, load: ContextLoad) -> bool:
        return load.window is not None and load.estimated > load.window // 2

    async def compress(self, occasion: CompactionRequest, emit: object) -> Compaction | NoCompaction:
        from hermes.context.engine import MessageReplacement

        active = [row for row in occasion.rows if row.state is MessageState.ACTIVE]
        half = len(active) // 2
        while half and active[half].message.role is Role.TOOL:
            half -= 1
        if not half:
            return NoCompaction("There is nothing to cut.")
        message = program_message(Role.USER, "[the older half was cut]")
        return Compaction(changes=(MessageReplacement(tuple(row.id for row in active[:half]), message),))

    def tools(self) -> Sequence[Tool]:
        @tool("stub_engine", deferred=True, parallel=Parallel.SAFE, repeatable=True, summary=lambda args: "recall")
        async def stub_recall(ctx: ToolContext, number: Annotated[int, "Which message."]) -> ToolOutput:
            """Show a message that was cut."""
            return ToolOutput(text=f"message {number}")

        return (stub_recall,)


def stub(_: EngineSetup) -> ContextEngine:
    return Stub()


def built_in(name: str) -> EngineFactory:
    return lambda setup: open_engine(name, setup)[0]


FACTORIES = {name: built_in(name) for name in list_engine_names()}
FACTORIES["stub"] = stub
every_engine = pytest.mark.parametrize("factory", FACTORIES.values(), ids=list(FACTORIES))


def conversation(rounds: int) -> list[Message]:
    messages: list[Message] = []
    for number in range(rounds):
        call = ToolCallPart(call_id=f"c{number}", name="read_file", arguments=f'{{"path": "src/file_{number}.py"}}')
        messages += [
            user_message(f"Never forget rule {number}. Do thing {number}."),
            Message(role=Role.ASSISTANT, parts=(TextPart("I look."), call)),
            Message(role=Role.TOOL, parts=(ToolResultPart(f"c{number}", "read_file", "found " * 300),)),
            Message(role=Role.ASSISTANT, parts=(TextPart(f"Thing {number} is done."),)),
        ]
    return messages


def rows_of(messages: Sequence[Message]) -> tuple[StoredMessage, ...]:
    return tuple(
        StoredMessage(number, 1, "t", MessageState.ACTIVE, 0.0, None, None, message)
        for number, message in enumerate(messages, 1)
    )


async def remember(_: Sequence[Message]) -> str:
    return ""


def occasion(messages: Sequence[Message], window: int | None, trigger: CompactionTrigger) -> CompactionRequest:
    estimated = sum(estimate_message_tokens(message) for message in messages)
    return CompactionRequest(
        rows=rows_of(messages),
        replacement_ids=frozenset(),
        memo=b"",
        load=ContextLoad(estimated, None, window),
        trigger=trigger,
        turn_id="t",
        remember=remember,
    )


async def silent(_: Event) -> None:
    """Events are not looked at."""


@pytest.fixture
async def setup(tmp_path: Path) -> EngineSetup:
    store = await Store.open(tmp_path, SystemClock())
    await store.close()
    return EngineSetup(
        settings=CompressionSettings(protect_last_n=4),
        store=store,
        session_id="s",
        summary_task=SideTask([]),
        clock=SystemClock(),
    )


@every_engine
def test_it_is_an_engine_with_a_name(factory: EngineFactory, setup: EngineSetup) -> None:
    engine = factory(setup)
    assert isinstance(engine, ContextEngine) and engine.name
    assert all(tool.deferred for tool in engine.tools())


@every_engine
def test_a_small_conversation_is_left_alone(factory: EngineFactory, setup: EngineSetup) -> None:
    engine = factory(setup)
    assert not engine.should_compress(ContextLoad(1_000, None, 200_000))
    assert not engine.should_compress(ContextLoad(1_000_000, None, None))
    assert engine.should_compress(ContextLoad(199_000, None, 200_000))


@every_engine
@pytest.mark.parametrize("trigger", list(CompactionTrigger))
@pytest.mark.parametrize("rounds", [1, 2, 5, 40])
async def test_what_it_does_is_shorter_and_splits_no_group(
    factory: EngineFactory, setup: EngineSetup, trigger: CompactionTrigger, rounds: int
) -> None:
    messages = conversation(rounds)
    asked = occasion(messages, 12_000, trigger)
    found = await factory(setup).compress(asked, silent)
    if isinstance(found, NoCompaction):
        assert found.reason.endswith((".", "task")), found.reason
        return
    covered = [number for change in found.changes for number in change.covered]
    assert len(covered) == len(set(covered)) and set(covered) <= {row.id for row in asked.rows}
    stands = {change.covered[-1]: change.message for change in found.changes}
    after = [stands.get(row.id, row.message) for row in asked.rows if row.id in stands or row.id not in covered]
    assert sum(map(estimate_message_tokens, after)) < sum(map(estimate_message_tokens, messages))
    assert after[-1] == messages[-1]
    open_calls: set[str] = set()
    for message in after:
        results = {result.call_id for result in message.tool_results()}
        assert results == open_calls
        open_calls = {call.call_id for call in message.tool_calls()}
    assert not open_calls


@every_engine
async def test_nothing_to_cut_is_said(factory: EngineFactory, setup: EngineSetup) -> None:
    found = await factory(setup).compress(occasion([user_message("hello")], 12_000, CompactionTrigger.ASKED), silent)
    assert isinstance(found, NoCompaction) and found.reason


async def test_an_unknown_name_is_said_and_the_built_in_used(setup: EngineSetup) -> None:
    engine, remark = open_engine("compresor", setup)
    assert engine.name == "compressor"
    assert remark == "There is no context engine 'compresor'; the built-in one is used. Did you mean 'compressor'?"
    assert open_engine("", setup)[1] == ""


async def test_a_packages_engine_is_used_only_when_it_is_named(
    setup: EngineSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site"
    (package / "lcm-1.0.dist-info").mkdir(parents=True)
    (package / "lcm-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: lcm\nVersion: 1.0\n")
    (package / "lcm-1.0.dist-info/entry_points.txt").write_text(
        "[hermes.context_engines]\nlcm = lcm_engine:make\nodd = lcm_engine:odd\n"
    )
    (package / "lcm_engine.py").write_text(
        "from hermes.context.engines.compressor import Compressor\n"
        "class Lcm(Compressor):\n    name = 'lcm'\n"
        "def make(setup):\n    return Lcm(setup)\n"
        "def odd(setup):\n    return object()\n"
    )
    monkeypatch.syspath_prepend(str(package))
    PACKAGES.use(lambda _package: False)
    engine, remark = open_engine("lcm", setup)
    assert engine.name == "compressor" and "lcm 1.0, which is not enabled" in remark and "lcm_engine" not in sys.modules
    PACKAGES.use(lambda package: (package.name, package.version) == ("lcm", "1.0"))
    assert open_engine("compressor", setup)[0].name == "compressor"
    engine, remark = open_engine("lcm", setup)
    assert (engine.name, remark) == ("lcm", "")
    engine, remark = open_engine("odd", setup)
    assert engine.name == "compressor" and "is not a context engine" in remark
