"""Recovery after a restart: answers not in the outbox yet, turns under way, and commands."""

import asyncio
from collections.abc import Callable, Sequence

from hermes.core.chats import OutboxItem, Outgoing, UnansweredEvents
from hermes.core.errors import HermesError, StoreError
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.gateway.chat_session import ChatSession
from hermes.gateway.chat_sessions import ChatSessions
from hermes.gateway.outbox import Outbox
from hermes.gateway.stream_renderer import build_answer, filter_answer
from hermes.gateway.text.split import split_text
from hermes.i18n.messages import tr
from hermes.sessions.app import App

RETRY_PAUSES = (1.0, 10.0, 60.0, 300.0, 1800.0)
"""Seconds between attempts to enqueue an answer while the disk is full."""


class GatewayRecovery:
    """Finishes what the store shows as unfinished. `report` takes what could not be continued."""

    def __init__(self, app: App, chat_sessions: ChatSessions, outbox: Outbox, report: Callable[[str], None]) -> None:
        self._store = app.services.store
        self._chat_sessions = chat_sessions
        self._outbox = outbox
        self._report = report

    async def recover(self) -> None:
        """Continue what the process before left.

        That is answers not in the outbox, turns under way, queued messages and commands.
        """
        await self._store.chats.close_lost_events()
        for row in await self._store.chats.list_begun_commands():
            text = tr(
                "(The gateway ended while it carried out {what}. Look whether it was done.)", what=row.arrival.text
            )
            key = f"begun:{row.id}"
            await self._store.outbox.enqueue(
                [OutboxItem(key=key, message=Outgoing(place=row.arrival.place, text=text, key=key))]
            )
            await self._store.chats.dismiss_events([row.id], "the process ended")
        sessions: dict[str, None] = {}
        for one in await self._store.chats.list_unanswered():
            if one.over:
                await self._settle_answer(one)
            else:
                sessions[one.session_id] = None
        for session_id in sessions:
            await self.resume_session(session_id)

    async def resume_session(self, session_id: str) -> None:
        """Reopen a session, and continue its work."""
        try:
            chat_session = await self._open_chat_session(session_id)
        except HermesError as error:
            self._report(f"{session_id}: {error}")
        else:
            if chat_session is not None:
                chat_session.actor.resume()

    async def settle_reopened(self, session_id: str) -> None:
        """Enqueue the answers that a session gave while another process held it, or before it broke."""
        for one in await self._store.chats.list_unanswered():
            if one.session_id == session_id and one.over:
                await self._settle_answer(one, RETRY_PAUSES)
                self._outbox.wake_lane(one.arrivals[-1].place.lane)

    async def _settle_answer(self, one: UnansweredEvents, pauses: Sequence[float] = ()) -> None:
        """Enqueue an answer; while the store takes nothing it is retried after each of these pauses."""
        for pause in (*pauses, None):
            try:
                await self._enqueue_answer(one)
            except HermesError as error:
                self._report(f"{one.session_id}: {error}")
                if pause is None or not isinstance(error, StoreError):
                    return
                await asyncio.sleep(pause)
            else:
                return

    async def _enqueue_answer(self, one: UnansweredEvents) -> None:
        """Enqueue the answer of a turn that ended before its answer was in the outbox."""
        chat_session = await self._open_chat_session(one.session_id)
        if chat_session is None:
            return
        text = await self._store.chats.get_last_answer(one.turn_id)
        ended = TurnEnded(turn_id=one.turn_id, reason=ExitReason(one.reason), text=text, error=one.error)
        answer = filter_answer(build_answer(ended), chat_session.egress_filter, chat_session.can)
        opened = await self._store.outbox.find_open(one.turn_id)
        items = []
        for number, piece in enumerate(split_text(answer.text, chat_session.can)):
            key = opened.key if opened is not None and not number else f"{one.turn_id}:late:{number}"
            message = Outgoing(place=one.arrivals[-1].place, text=piece, key=key)
            items.append(OutboxItem(key=key, message=message, session_id=one.session_id, turn_id=one.turn_id))
        await self._store.outbox.enqueue(items, answered=one.turn_id, outcome=answer.outcome)

    async def _open_chat_session(self, session_id: str) -> ChatSession | None:
        """Reopen the chat session of a session that was at work; None where its account is not configured any more."""
        for binding in await self._store.chats.list_session_bindings(session_id):
            chat_session = await self._chat_sessions.open_binding(binding)
            if chat_session is not None:
                return chat_session
        return None
