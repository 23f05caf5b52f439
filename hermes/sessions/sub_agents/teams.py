"""The sub-agents of a process: those of each live session that has had some."""

import asyncio
from collections.abc import Awaitable, Callable

from hermes.core.errors import BusyError
from hermes.core.sub_agents import SubAgentTask
from hermes.i18n.messages import N_
from hermes.runtime.actor import SessionActor
from hermes.sessions.sub_agents.run import SubAgentHost
from hermes.sessions.sub_agents.team import SubAgentTeam
from hermes.store.sub_agents import SubAgentRow

MAX_BACKGROUND_SESSIONS = 8
"""The most background sessions of one person that work at the same time."""
MAX_ALL_BACKGROUND_SESSIONS = 32
"""The most background sessions of all people that work at the same time."""

AttachCloser = Callable[[SessionActor, Callable[[], Awaitable[None]]], None]
"""Has something closed before a live session is."""


class SubAgentTeams:
    """The sub-agents of each live session; those of one are closed before it is."""

    def __init__(self, host: SubAgentHost, attach_closer: AttachCloser) -> None:
        self._host = host
        self._attach_closer = attach_closer
        self._teams: dict[str, SubAgentTeam] = {}
        self._begins_one = asyncio.Lock()
        """Held while one is begun for a person, so that each is counted before the next."""

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

    async def begin_for_person(self, session_id: str, task: SubAgentTask) -> SubAgentRow:
        """Begin a session beside a live one for its person, see `SubAgentTeam`. Raises BusyError where too many work:
        of the person, so that nobody takes the places of all others, or of everybody.
        """
        person = self._host.live_session(session_id).options.person
        async with self._begins_one:
            if self._count_for_person(person) >= MAX_BACKGROUND_SESSIONS:
                raise BusyError(
                    N_("{n} background sessions work already.", n=MAX_BACKGROUND_SESSIONS),
                    N_("/background stop N ends one of them."),
                )
            if self._count_for_person() >= MAX_ALL_BACKGROUND_SESSIONS:
                raise BusyError(
                    N_("{n} background sessions of several people work already.", n=MAX_ALL_BACKGROUND_SESSIONS),
                    N_("Try it again when some of them are done."),
                )
            return await self.open_team(session_id).begin_for_person(task)

    def _count_for_person(self, person: str | None = None) -> int:
        """Return how many sessions that people have asked for work here: those of one person, or all."""
        return sum(
            run.is_for_person
            for session_id, team in self._teams.items()
            if person is None or self._host.live_session(session_id).options.person == person
            for run in team.runs
        )

    def has_unfinished(self, session_id: str) -> bool:
        """Return whether sub-agents of a live session work, or have reports that are still to be delivered."""
        team = self._teams.get(session_id)
        return team is not None and team.has_unfinished
