"""A session on a real store, whose turn can be left as a dead process leaves it, and taken up again."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from msgspec import structs

from hermes.core.events import ApprovalAsked, Event
from hermes.core.frame import EpochFrame
from hermes.core.messages import Message, Role, ToolCallPart, ToolResultPart, user_message
from hermes.runtime.approvals import SessionApprovals
from hermes.runtime.recorder import TurnRecorder
from hermes.store.messages import TranscriptEntry
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.permissions.gate import Approver
from hermes.tools.permissions.policy_gate import PolicyGate
from hermes.tools.registry import Toolbox, ToolRegistry
from hermes.tools.session import CodeAccess, ToolContext
from hermes.tools.tool import Tool, tool
from hermes.util.clock import SystemClock
from tests.tools.tool_session import make_context

TURN = "turn_1"


class Effects:
    """Two tools whose effects are counted; one of them may be repeated. Either waits while its `held` text is asked."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.held = ""
        self.begun = asyncio.Event()

    async def _act(self, text: str) -> str:
        if text == self.held:
            self.begun.set()
            await asyncio.Event().wait()
        self.done.append(text)
        return f"did {text}"

    def tools(self) -> list[Tool]:
        @tool("tests", repeatable=True)
        async def look(ctx: ToolContext, text: Annotated[str, "What."]) -> str:
            """Look."""
            return await self._act(text)

        @tool("tests")
        async def act(ctx: ToolContext, text: Annotated[str, "What."]) -> str:
            """Act."""
            return await self._act(text)

        return [look, act]


class DurableSession:
    """One turn of a session that calls `execute_code`, over as many lives as a test wants."""

    def __init__(self, store: Store, context: ToolContext, effects: Effects) -> None:
        self.store = store
        self.context = context
        self.effects = effects
        self.events: list[Event] = []
        self._asked: asyncio.Queue[ApprovalAsked] = asyncio.Queue()
        self.fence = 1
        self.approver: Approver | None = None

    @classmethod
    async def open(cls, folder: Path, effects: Effects) -> "DurableSession":
        store = await Store.open(folder / "store", SystemClock())
        await store.sessions.create(
            NewSession(id="s", source="cli", user_id="", provider="p", model="m", cwd=str(folder))
        )
        await store.epochs.begin(
            "s", EpochFrame(provider="p", model="m", wire="w", encoder_version=1, system=""), "new"
        )
        made = cls(store, make_context(folder), effects)
        made.context = structs.replace(made.context, code=CodeAccess(key_file=folder / "code.key"))
        await store.messages.start_turn(made._entry(user_message("go")))
        return made

    def _entry(self, message: Message) -> TranscriptEntry:
        return TranscriptEntry(session_id="s", epoch=1, turn_id=TURN, messages=(message,), fence=1)

    async def ask(self, code: str) -> None:
        """Store the message that calls `execute_code`."""
        call = ToolCallPart(call_id="c", name="execute_code", arguments=json.dumps({"code": code}))
        await self.store.messages.append_with_next(self._entry(Message(role=Role.ASSISTANT, parts=(call,))))
        self.call = call

    def live(self) -> "asyncio.Task[tuple[ToolResultPart, ...]]":
        """Run the call in one life of the process."""
        recorder = TurnRecorder(self.store, session_id="s", epoch=1, untitled=False)
        recorder.set_owner(TURN, self.fence)
        toolbox = Toolbox([*ToolRegistry().select_tools(), *self.effects.tools()])
        executor = Executor(toolbox, PolicyGate(), approver=self.approver, code_journal=recorder)
        self.context.state.taint = type(self.context.state.taint)()
        batch = CallBatch([self.call])
        return asyncio.ensure_future(executor.run(batch, self.context, recorder, self._take_event))

    def _take_event(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, ApprovalAsked):
            self._asked.put_nowait(event)

    async def next_question(self) -> ApprovalAsked:
        """Wait for the next question."""
        async with asyncio.timeout(20):
            return await self._asked.get()

    async def result(self) -> ToolResultPart:
        (result,) = await self.live()
        return result

    async def die(self, life: "asyncio.Task[tuple[ToolResultPart, ...]]") -> None:
        """End a life in the middle of a call that is held, as a kill does: nothing more is written. Begin the next."""
        async with asyncio.timeout(20):
            await self.effects.begun.wait()
        await asyncio.sleep(0)
        life.cancel()
        await asyncio.wait((life,))
        self.effects.held = ""
        self.effects.begun.clear()
        self.fence = await self.store.turns.adopt(TURN)

    def approvals(self, *, seconds: float = 60.0) -> SessionApprovals:
        return SessionApprovals(self.store, "s", SystemClock(), seconds=seconds, turn=lambda: TURN)

    async def change_state(self, change: Callable[..., object]) -> None:
        """Change the stored state of the run by hand."""
        stored = await self.store.code_runs.get(TURN, "c")
        assert stored is not None
        state = change(stored.state)
        await self.store.code_runs.record_state(TURN, "c", state)  # type: ignore[arg-type]
