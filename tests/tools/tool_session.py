"""A session's context on real folders, and a way to make calls through the real executor."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec
import pytest

from hermes.core.events import Event
from hermes.core.messages import ToolCallPart, ToolResultPart
from hermes.core.outcomes import AnswerScope
from hermes.core.protocols import Intent
from hermes.execution.base import BackendHandle, TerminalBackend
from hermes.execution.local import LocalBackend
from hermes.safety.paths import Places
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.permissions.gate import ApprovalAnswer, ApprovalRequest
from hermes.tools.permissions.policy_gate import ApprovalPolicy, PolicyGate
from hermes.tools.registry import Toolbox, ToolRegistry
from hermes.tools.session import ToolContext, ToolState
from hermes.tools.taint import TrustedFolders
from hermes.util.clock import SystemClock


class Journal:
    """Keeps what the executor writes down, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.intents: list[Intent] = []

    async def record_intents(self, intents: Sequence[Intent]) -> None:
        self.intents += intents
        self.lines.append("intend " + " ".join(intent.call_id for intent in intents))

    async def record_result(self, result: ToolResultPart) -> None:
        self.lines.append(f"done {result.call_id}")

    async def flush(self) -> None:
        return


class Person:
    """Answers approval questions and questions of the model's from a list."""

    def __init__(self, *answers: bool | AnswerScope, says: str | None = None) -> None:
        self.answers = list(answers)
        self.says = says
        self.asked: list[ApprovalRequest] = []
        self.questions: list[tuple[str, list[str]]] = []

    async def ask(self, request: ApprovalRequest, show: Callable[[ApprovalRequest], None]) -> ApprovalAnswer:
        self.asked.append(request)
        show(request)
        answer = self.answers.pop(0)
        scope = answer if isinstance(answer, AnswerScope) else AnswerScope.ONCE if answer else AnswerScope.DENY
        return ApprovalAnswer(scope=scope, by="person")


class Listener:
    """Answers the model's questions with one text."""

    def __init__(self, says: str | None) -> None:
        self.says = says
        self.questions: list[tuple[str, list[str]]] = []

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        self.questions.append((question, list(choices)))
        return self.says


class Session:
    """One session: a context, and calls made through the executor."""

    def __init__(self, context: ToolContext, toolbox: Toolbox) -> None:
        self.context = context
        self.toolbox = toolbox
        self.events: list[Event] = []
        self.journal = Journal()
        self.person: Person | None = None
        self.allow: tuple[str, ...] = ()
        self.delay = 0.0

    @property
    def state(self) -> ToolState:
        return self.context.state

    @property
    def cwd(self) -> Path:
        return self.context.state.cwd

    async def close(self) -> None:
        await self.state.close()
        await self.context.backend.close()

    def executor(self) -> Executor:
        return Executor(
            self.toolbox, PolicyGate(ApprovalPolicy(allow=self.allow)), approver=self.person, tool_delay=self.delay
        )

    async def batch(self, *calls: tuple[str, Mapping[str, object]]) -> tuple[ToolResultPart, ...]:
        parts = [
            ToolCallPart(call_id=f"c{number}", name=name, arguments=msgspec.json.encode(arguments).decode())
            for number, (name, arguments) in enumerate(calls, 1)
        ]
        return await self.executor().run(CallBatch(parts), self.context, self.journal, self.events.append)

    async def call(self, name: str, /, **arguments: object) -> ToolResultPart:
        (result,) = await self.batch((name, arguments))
        return result

    async def text(self, name: str, /, **arguments: object) -> str:
        return (await self.call(name, **arguments)).text


def make_context(folder: Path, **changes: object) -> ToolContext:
    workspace, home = folder / "work", folder / "home"
    for made in (workspace, home / ".hermes"):
        made.mkdir(parents=True, exist_ok=True)
    spill = home / ".hermes" / "spill"
    values: dict[str, object] = {
        "session_id": "s",
        "state": ToolState(cwd=workspace),
        "places": Places(home=str(home), hermes=str(home / ".hermes"), workspace=str(workspace), own=(str(spill),)),
        "spill_folder": spill,
        "backend": LocalBackend({**os.environ, "HOME": str(home)}),
        "clock": SystemClock(),
        "trust": TrustedFolders((str(folder),)),
        "search_path": os.environ.get("PATH", ""),
    }
    values |= changes
    backend = cast("TerminalBackend", values.pop("backend"))
    return ToolContext(backend_handle=BackendHandle.from_backend(backend), **values)  # type: ignore[arg-type]


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    made = Session(make_context(tmp_path.resolve()), ToolRegistry().select_tools())
    yield made
    await made.close()
