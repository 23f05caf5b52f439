"""What a gateway finds unfinished at its start: turns, answers that are not delivered yet, sub-agents, commands."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from hermes.admin.people.identity import PersonIdentity
from hermes.core.chats import Binding, OutboxItem, Outgoing, UnansweredEvents
from hermes.core.errors import HermesError, StoreError
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.chat_session import ChatSession, GatewayDeps
from hermes.gateway.stream_renderer import build_answer, filter_answer
from hermes.gateway.text.split import split_text
from hermes.i18n.messages import tr
from hermes.runtime.turn_answers import load_answer
from hermes.util.text import strip_control_characters, to_one_line

RETRY_PAUSES = (1.0, 10.0, 60.0, 300.0, 1800.0)
"""Seconds between attempts to enqueue an answer while the disk is full."""


class RecoveringPool(Protocol):
    """Opens the sessions of chats."""

    accounts: Mapping[str, PlatformAccount]

    def __len__(self) -> int:
        """Return the number of live sessions."""
        ...

    def find_chat(self, key: str) -> ChatSession | None:
        """Return the live chat session of a key, or None."""
        ...

    async def open_chat(self, account: PlatformAccount, binding: Binding, person: PersonIdentity) -> ChatSession:
        """Return the live chat session of a binding, opened where it is not."""
        ...


class SessionRecovery:
    """Finishes what the store shows as unfinished."""

    def __init__(self, deps: GatewayDeps, pool: RecoveringPool) -> None:
        self._app = deps.app
        self._store = deps.app.services.store
        self._pool = pool
        self._left_roots: list[str] = []
        """The sessions at the top whose sub-agents are still to be taken up."""
        self._people = deps.people
        self._outbox = deps.outbox
        self._report = deps.telemetry.report_line

    async def recover(self) -> None:
        """Continue what the process before left.

        That is answers not in the outbox, turns under way, queued messages, commands, and sub-agents.
        """
        await self._store.chats.close_lost_events()
        await self._store.chats.forget_beside()
        for row in await self._store.chats.list_begun_commands():
            text = tr(
                "(The gateway ended while it carried out {what}. Look whether it was done.)", what=row.arrival.text
            )
            key = f"begun:{row.id}"
            await self._store.outbox.enqueue(
                [OutboxItem(key=key, message=Outgoing(place=row.arrival.place, text=text, key=key))]
            )
            await self._store.chats.dismiss_events([row.id], "the process ended")
        await self._tell_of_lost_background()
        sessions: dict[str, None] = {}
        for one in await self._store.chats.list_unanswered():
            if one.over:
                await self._settle_answer(one)
            else:
                sessions[one.session_id] = None
        for session_id in sessions:
            await self.resume_session(session_id)
        self._left_roots = [one for one in await self._store.sub_agents.list_open_roots() if one not in sessions]
        await self._open_left_roots(until_full=True)

    async def resume_sub_agents(self) -> None:
        """Open the sessions of chats for whose sub-agents there was no room at the start, so that they go on without
        anybody writing.
        """
        await self._open_left_roots(until_full=False)

    async def _open_left_roots(self, *, until_full: bool) -> None:
        most = self._app.services.settings.gateway.max_live
        while self._left_roots and not (until_full and len(self._pool) >= most):
            await self.resume_session(self._left_roots.pop(0))

    async def _tell_of_lost_background(self) -> None:
        """Tell whom sessions worked for in the background that these were cut off, and how they go on."""
        for one in await self._store.background.list_unfinished():
            text = tr(
                "(The gateway ended while a background session worked on “{about}”. /resume {id} goes on with it.)",
                about=to_one_line(strip_control_characters(one.prompt), 60),
                id=one.session_id,
            )
            key = f"background:{one.session_id}"
            message = Outgoing(place=one.place, text=text, key=key)
            await self._store.outbox.enqueue([OutboxItem(key=key, message=message, session_id=one.session_id)])
            await self._store.background.end(one.session_id)

    async def resume_session(self, session_id: str) -> None:
        """Reopen a session, and continue its work."""
        try:
            chat_session = await self._open_bound(session_id)
        except HermesError as error:
            self._report(f"{session_id}: {error}")
        else:
            if chat_session is not None:
                chat_session.actor.resume()

    async def _open_bound(self, session_id: str) -> ChatSession | None:
        """Open the chat session of a session that was at work; None where its account is not configured any more, and
        where its person is unknown now: their unanswered messages are then closed.
        """
        for binding in await self._store.chats.list_session_bindings(session_id):
            account = self._pool.accounts.get(binding.place.platform)
            if account is None:
                continue
            live = self._pool.find_chat(binding.key)
            if live is not None:
                return live
            person = await self._people.find_person(binding.person, account.plan.settings)
            if person is not None:
                return await self._pool.open_chat(account, binding, person)
            await self._store.chats.abandon_session_events(session_id, "unknown sender")
        return None

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
        chat_session = await self._open_bound(one.session_id)
        if chat_session is None:
            return
        text = await load_answer(self._store, one.turn_id)
        ended = TurnEnded(turn_id=one.turn_id, reason=ExitReason(one.reason), text=text, error=one.error)
        answer = filter_answer(build_answer(ended), chat_session.egress_filter, chat_session.account.can)
        opened = await self._store.outbox.find_open(one.turn_id)
        items = []
        for number, piece in enumerate(split_text(answer.text, chat_session.account.can)):
            key = opened.key if opened is not None and not number else f"{one.turn_id}:late:{number}"
            message = Outgoing(place=one.arrivals[-1].place, text=piece, key=key)
            items.append(OutboxItem(key=key, message=message, session_id=one.session_id, turn_id=one.turn_id))
        await self._store.outbox.enqueue(items, answered=one.turn_id, outcome=answer.outcome)
