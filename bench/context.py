"""What the check before each request costs in a long conversation, and one compression of it.

    python bench/context.py [--messages 10000]

The check looks at sizes that are known already; nothing is counted or encoded again.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from hermes.config.settings import CompressionSettings
from hermes.context.engine import CompactionRequest, CompactionTrigger, ContextLoad, EngineSetup, open_engine
from hermes.core.events import Event
from hermes.core.frame import EpochFrame, ToolSchema
from hermes.core.messages import Message, Role, TextPart, ToolCallPart, ToolResultPart, user_message
from hermes.llm.client import SideTask
from hermes.llm.lineage import Lineage
from hermes.providers.records import load_record
from hermes.providers.wire import Endpoint
from hermes.store.records import MessageState, StoredMessage
from hermes.store.store import Store
from hermes.util.clock import SystemClock

CHECKS = 1_000


def conversation(count: int) -> list[Message]:
    """Rounds of a question, a call, its result and an answer."""
    messages: list[Message] = []
    while len(messages) < count:
        number = len(messages)
        call = ToolCallPart(call_id=f"c{number}", name="read_file", arguments=f'{{"path": "src/file_{number}.py"}}')
        messages += [
            user_message(f"Always look at file {number} before you answer. What is in it?"),
            Message(role=Role.ASSISTANT, parts=(TextPart("I look."), call)),
            Message(role=Role.TOOL, parts=(ToolResultPart(f"c{number}", "read_file", f"line {number} of it\n" * 60),)),
            Message(role=Role.ASSISTANT, parts=(TextPart(f"It holds sixty lines, all {number}."),)),
        ]
    return messages[:count]


async def measure(count: int, folder: Path) -> tuple[float, float, float, float]:
    """Milliseconds of a check, of encoding the conversation once, of a compression without a model, and of that
    what runs in the event loop, where other sessions wait for it."""
    store = await Store.open(folder, SystemClock())
    setup = EngineSetup(
        settings=CompressionSettings(),
        store=store,
        session_id="s",
        summary_task=SideTask([]),
        clock=SystemClock(),
    )
    engine, _ = open_engine("", setup)
    endpoint = Endpoint(
        record=load_record("custom"), model="m", base_url="http://127.0.0.1/v1", api_key="", wire="chat_completions"
    )
    tools = tuple(ToolSchema(f"tool_{number}", "Does something. " * 20, b'{"type":"object"}') for number in range(15))
    frame = EpochFrame(
        provider="custom", model="m", wire="chat_completions", encoder_version=1, system="x" * 4_000, tools=tools
    )
    messages = conversation(count)
    lineage = Lineage(frame, endpoint)
    began = time.process_time()
    lineage.append_messages(messages)
    encoding = time.process_time() - began
    lineage.record_count(lineage.size, lineage.estimated_tokens)
    began = time.process_time()
    for _ in range(CHECKS):
        load = ContextLoad(
            lineage.estimated_tokens, lineage.count_tokens(lineage.size), 10_000_000, lineage.frame_estimate
        )
        engine.should_compress(load)
    checking = (time.process_time() - began) / CHECKS
    rows = tuple(
        StoredMessage(number, 1, "t", MessageState.ACTIVE, 0.0, None, None, message)
        for number, message in enumerate(messages, 1)
    )
    load = ContextLoad(lineage.estimated_tokens, None, lineage.estimated_tokens, lineage.frame_estimate)
    occasion = CompactionRequest(
        rows=rows,
        replacement_ids=frozenset(),
        memo=b"",
        load=load,
        trigger=CompactionTrigger.OVERFLOW,
        remember=_nothing,
    )
    began, began_here = time.process_time(), time.thread_time()
    await engine.compress(occasion, _silent)
    compressing, here = time.process_time() - began, time.thread_time() - began_here
    await store.close()
    return checking * 1_000, encoding * 1_000, compressing * 1_000, here * 1_000


async def _nothing(_: object) -> str:
    return ""


async def _silent(_: Event) -> None:
    """Nobody watches."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checking, encoding, compressing, here = asyncio.run(measure(chosen.messages, Path(folder)))
    print(f"{chosen.messages} messages: a check {checking:.4f} ms of CPU (at most 2 wanted),")
    print(f"encoding all of them once {encoding:.1f} ms ({encoding / checking:,.0f} checks),")
    print(f"a compression without a model's time {compressing:.1f} ms, {here:.1f} of them in the event loop")
    return 0 if checking <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
