"""The sub-agents of a process: those of each live session that has had some."""

from collections.abc import Awaitable, Callable

from hermes.runtime.actor import SessionActor
from hermes.sessions.sub_agents.run import SubAgentHost
from hermes.sessions.sub_agents.team import SubAgentTeam

AttachCloser = Callable[[SessionActor, Callable[[], Awaitable[None]]], None]
"""Has something closed before a live session is."""


class SubAgentTeams:
    """The sub-agents of each live session; those of one are closed before it is."""

    def __init__(self, host: SubAgentHost, attach_closer: AttachCloser) -> None:
        self._host = host
        self._attach_closer = attach_closer
        self._teams: dict[str, SubAgentTeam] = {}

    def find_team(self, session_id: str) -> SubAgentTeam | None:
        """Return the sub-agents of a live session; None where it has had none here."""
        return self._teams.get(session_id)

    def open_team(self, session_id: str) -> SubAgentTeam:
        """Return the sub-agents of a live session. Raises NotFoundError for one that is not live in this process."""
        found = self._teams.get(session_id)
        if found is None:
            live = self._host.live_session(session_id)
            found = self._teams[session_id] = SubAgentTeam(self._host, live, self.find_team)

            async def close_team() -> None:
                await self._teams.pop(session_id).close()

            self._attach_closer(live.actor, close_team)
        return found

    def has_unfinished(self, session_id: str) -> bool:
        """Return whether sub-agents of a live session work, or have reports that are still to be delivered."""
        team = self._teams.get(session_id)
        return team is not None and team.has_unfinished
