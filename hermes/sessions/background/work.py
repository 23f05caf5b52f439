"""What a process's sessions do by themselves: work towards goals, and answer beside the one that is talked with."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hermes.runtime.actor import SessionActor

if TYPE_CHECKING:
    from hermes.sessions.background.goals import Pursuit
    from hermes.sessions.background.sessions import Background
    from hermes.sessions.services import Premises
    from hermes.sessions.session_builder import Live

Look = Callable[[SessionActor], "Live"]
Close = Callable[[SessionActor], Awaitable[None]]
Attend = Callable[[SessionActor, Callable[[], Awaitable[None]]], None]


class Beside:
    """Made for an App when it is first needed, and closed by it before its sessions are. `attend` has something closed
    before a session is."""

    def __init__(self, premises: "Premises", live: Look, close_session: Close, attend: Attend) -> None:
        self._on = premises
        self._live = live
        self._close_session = close_session
        self._attend = attend
        self._background: Background | None = None
        self._pursuits: dict[object, Pursuit] = {}

    @property
    def background(self) -> "Background":
        """The sessions that work beside the one that is talked with."""
        if self._background is None:
            from hermes.sessions.background.sessions import Background

            self._background = Background(self._close_session)
        return self._background

    def pursuing(self, actor: object) -> "Pursuit | None":
        """What a session works towards by itself, where there is such a thing."""
        return self._pursuits.get(actor)

    async def pursuit(self, actor: SessionActor) -> "Pursuit":
        """The same, ready to be given a goal."""
        found = self._pursuits.get(actor)
        if found is None:
            from hermes.sessions.background.goals import pursuit_of

            found = self._pursuits[actor] = await pursuit_of(self._on, self._live(actor))

            async def close() -> None:
                del self._pursuits[actor]
                await found.close()

            self._attend(actor, close)
        return found

    async def close(self) -> None:
        """End the sessions in the background."""
        if self._background is not None:
            await self._background.close()
