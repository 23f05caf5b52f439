"""The goals that a process's sessions pursue by themselves."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hermes.runtime.actor import SessionActor

if TYPE_CHECKING:
    from hermes.sessions.background.goals import GoalPursuit
    from hermes.sessions.services import Services
    from hermes.sessions.session_builder import LiveSession
    from hermes.sessions.sub_agents.team import SubAgentTeam

FindTeam = Callable[[str], "SubAgentTeam | None"]
"""Returns the sub-agents of a live session; None where it has had none."""
FindLiveSession = Callable[[SessionActor], "LiveSession"]
AttachCloser = Callable[[SessionActor, Callable[[], Awaitable[None]]], None]


class BackgroundWork:
    """The goal pursuits of an App. `attach_closer` has something closed before a session is."""

    def __init__(
        self, services: "Services", find_live: FindLiveSession, attach_closer: AttachCloser, find_team: FindTeam
    ) -> None:
        self._services = services
        self._find_team = find_team
        self._find_live = find_live
        self._attach_closer = attach_closer
        self._pursuits: dict[object, GoalPursuit] = {}

    def find_pursuit(self, actor: object) -> "GoalPursuit | None":
        """Return the goal pursuit of a session, or None."""
        return self._pursuits.get(actor)

    async def open_pursuit(self, actor: SessionActor) -> "GoalPursuit":
        """Return the goal pursuit of a session, opened when there is none yet."""
        found = self._pursuits.get(actor)
        if found is None:
            from hermes.sessions.background.goals import open_pursuit

            found = self._pursuits[actor] = await open_pursuit(self._services, self._find_live(actor), self._find_team)

            async def close() -> None:
                del self._pursuits[actor]
                await found.close()

            self._attach_closer(actor, close)
        return found
