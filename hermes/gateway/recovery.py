"""Goes on with what a process that ended has left: answers that nobody owes yet, turns under way, commands."""

import asyncio
from collections.abc import Callable, Sequence

from hermes.core.chats import Outgoing, Owed, Unanswered
from hermes.core.errors import HermesError, StoreError
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.gateway.answer_text import answer_of, let_out, pieces
from hermes.gateway.chat_session import Conversation
from hermes.gateway.chat_sessions import Conversations
from hermes.gateway.outbox import Outbox
from hermes.i18n.messages import say
from hermes.sessions.app import App

PAUSES = (1.0, 10.0, 60.0, 300.0, 1800.0)
"""Seconds between attempts to owe an answer while the disk is full."""


class Recovery:
    """Looks into the store for what is unfinished. `report` says what could not be gone on with."""

    def __init__(self, app: App, conversations: Conversations, outbox: Outbox, report: Callable[[str], None]) -> None:
        self._store = app.premises.store.chats
        self._conversations = conversations
        self._outbox = outbox
        self._report = report

    async def recover(self) -> None:
        """What the process before left: answers that nobody owes yet, turns under way, words that wait, commands."""
        await self._store.lost_arrivals()
        for row in await self._store.begun_commands():
            text = say(
                "(The gateway ended while it carried out {what}. Look whether it was done.)", what=row.arrival.text
            )
            key = f"begun:{row.id}"
            await self._store.owe([Owed(key=key, message=Outgoing(place=row.arrival.place, text=text, key=key))])
            await self._store.dismiss([row.id], "the process ended")
        sessions: dict[str, None] = {}
        for one in await self._store.unanswered():
            if one.over:
                await self._settle(one)
            else:
                sessions[one.session_id] = None
        for session_id in sessions:
            await self.resume(session_id)

    async def resume(self, session_id: str) -> None:
        """Let a session live again, and go on with what it was at."""
        try:
            conversation = await self._conversation(session_id)
        except HermesError as error:
            self._report(f"{session_id}: {error}")
        else:
            if conversation is not None:
                conversation.actor.resume()

    async def mended(self, session_id: str) -> None:
        """A session lives again that another process held, or that broke: owe what it has answered meanwhile."""
        for one in await self._store.unanswered():
            if one.session_id == session_id and one.over:
                await self._settle(one, PAUSES)
                self._outbox.wake(one.arrivals[-1].place.lane)

    async def _settle(self, one: Unanswered, pauses: Sequence[float] = ()) -> None:
        """Owe an answer; while the store takes nothing it is tried again after each of these pauses."""
        for pause in (*pauses, None):
            try:
                await self._answer(one)
            except HermesError as error:
                self._report(f"{one.session_id}: {error}")
                if pause is None or not isinstance(error, StoreError):
                    return
                await asyncio.sleep(pause)
            else:
                return

    async def _answer(self, one: Unanswered) -> None:
        """Owe the answer of a turn that had ended before anybody owed it."""
        conversation = await self._conversation(one.session_id)
        if conversation is None:
            return
        text = await self._store.last_answer(one.turn_id)
        ended = TurnEnded(turn_id=one.turn_id, reason=ExitReason(one.reason), text=text, error=one.error)
        answer = let_out(answer_of(ended), conversation.leaving, conversation.can)
        opened = await self._store.open_delivery(one.turn_id)
        owed = []
        for number, piece in enumerate(pieces(answer.text, conversation.can)):
            key = opened.key if opened is not None and not number else f"{one.turn_id}:late:{number}"
            message = Outgoing(place=one.arrivals[-1].place, text=piece, key=key)
            owed.append(Owed(key=key, message=message, session_id=one.session_id, turn_id=one.turn_id))
        await self._store.owe(owed, answered=one.turn_id, outcome=answer.outcome)

    async def _conversation(self, session_id: str) -> Conversation | None:
        """The conversation of a session that was at work, live again; None where its account is not set up any more."""
        for binding in await self._store.bindings_of(session_id):
            conversation = await self._conversations.of_binding(binding)
            if conversation is not None:
                return conversation
        return None
