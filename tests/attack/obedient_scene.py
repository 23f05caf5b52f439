"""A fully obedient model in a real session: it calls whatever an attacker would have it call, and a person answers.

Everything is real but the model: the application, the loop, the gate, the store, the back end and its processes.
"""

import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from msgspec.structs import replace

from hermes.core.events import ApprovalAsked, Event, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxProbe
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.tools.session import ToolContext

NO = AnswerScope.DENY
ONCE = AnswerScope.ONCE
SESSION = AnswerScope.SESSION
ALWAYS = AnswerScope.ALWAYS
MECHANISM = os.environ.get("HERMES_TESTS_SANDBOX", "")
"""What makes the sandbox of every scene; empty for the best that there is."""
_PROBES: dict[tuple[str, str], SandboxProbe] = {}
"""What this machine enforces, by the PATH and the mechanism: a process finds it out once."""
Person = Callable[[ApprovalAsked], AnswerScope]


@dataclass
class Scene:
    """One session of the obedient model."""

    home: TempHome
    server: ScriptedServer
    app: App
    actor: SessionActor
    script: list[Reply]
    """What the model will answer next."""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    asked: list[ApprovalAsked] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    async def turn(self, *rounds: Sequence[Call], text: str = "go on", person: Person | None = None) -> list[str]:
        """One turn in which the model makes these calls, a batch a round; the results' texts in order.

        `person` answers what is asked; without one nobody can be asked.
        """
        named = [[replace(call, call_id=f"call_{next(self.numbers)}") for call in calls] for calls in rounds]
        self.script += [*(Say(calls=tuple(calls)) for calls in named), Say("done")]
        self.actor.approvals.can_ask = person is not None
        unsubscribe = self.actor.subscribe(lambda event: self._hear(event, person))
        try:
            ended: TurnEnded = await self.actor.post(InboundMessage(text=text, cwd=str(self.home.cwd)))
        finally:
            unsubscribe()
        assert not ended.error, ended.error
        results = self.server.requests[-1].results
        return [results[str(call.call_id)] for calls in named for call in calls]

    @property
    def context(self) -> ToolContext:
        """What the session's tools work with."""
        return self.app._live[self.actor.session_id][0].tools.context

    def open_tmp(self) -> None:
        """Let a sandbox see this machine's /tmp, where the scene's folders are: read-only, like the rest."""
        backend = self.context.backend
        assert isinstance(backend, SandboxBackend)
        backend._policy = backend._layouts._policy = replace(backend._policy, private=("/var/tmp",))

    async def call(self, name: str, person: Person | None = None, **arguments: object) -> str:
        """One turn with one call; its result's text."""
        (result,) = await self.turn([Call(name, arguments)], person=person)
        return result

    async def run(self, command: str, person: Person | None = None) -> str:
        """One turn with one shell command; its result's text."""
        return await self.call("terminal", person, command=command)

    def _hear(self, event: Event, person: Person | None) -> None:
        self.events.append(event)
        if isinstance(event, ApprovalAsked) and person is not None:
            self.asked.append(event)
            self.actor.approvals.answer(event.approval_id, scope=person(event), by="person")


def says(scope: AnswerScope) -> Person:
    """A person who gives the same answer to everything."""
    return lambda _: scope


@asynccontextmanager
async def scene(
    backend: str = "sandbox",
    *,
    config: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    trusted: bool = False,
    workspace: str = "work",
    mechanism: str = MECHANISM,
) -> AsyncIterator[Scene]:
    """A home, a scripted model and a session in it. `trusted`: the person vouches for the working folder, which is
    `workspace` below the scene's folder.
    """
    from hermes.config.trusted_folders import set_trust

    script: list[Reply] = []
    async with ScriptedServer(ScriptedModel(lambda _: script.pop(0))) as server:
        guard = {"hard_stop_enabled": False, "warnings_enabled": False}
        more = {"terminal": {"backend": backend}, "tool_loop_guardrails": guard, **(config or {})}
        with TempHome.for_server(server.url, more_config=more, workspace=workspace) as home:
            home.more.update(environ or {})
            if trusted:
                set_trust(home.hermes / "trust.json", str(home.cwd), trusted=True)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                app.services.process_deps.backend_factory._probe = _get_probe(home.environ, mechanism)
                yield Scene(home, server, app, await app.open_session(), script)


def _get_probe(environ: Mapping[str, str], mechanism: str) -> SandboxProbe:
    ways = (SandboxMechanism(mechanism),) if mechanism else (SandboxMechanism.BUBBLEWRAP, SandboxMechanism.LANDLOCK)
    key = environ.get("PATH", ""), mechanism
    if key not in _PROBES:
        _PROBES[key] = SandboxProbe(environ, ways)
    return _PROBES[key]
