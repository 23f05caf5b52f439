"""Hand a session over to another chat of its person, whether that is asked for in a chat or in a terminal."""

from hermes.gateway.send import list_plan_homes
from hermes.gateway.session_pool import SessionPool
from hermes.i18n.messages import tr
from hermes.sessions.features.handoff import find_own_chat, make_handover_note
from hermes.sessions.target_book import format_chat


async def hand_off_session(pool: SessionPool, session_id: str, target: str, *, person: str, origin: str = "") -> str:
    """Let the chat of a person that a target means go on with a session, and tell it; return what to say to the person,
    who is in the chat `origin`, else in a terminal. Raises NotFoundError, UsageError, BusyError.
    """
    services = pool.deps.app.services
    homes = list_plan_homes({name: one.plan for name, one in pool.accounts.items()})
    other = await find_own_chat(
        services.store, services.settings.platforms, target, person=person, homes=homes, here=origin
    )
    await pool.rebind(other, session_id)
    note = await make_handover_note(services.store, other, session_id, origin or tr("a terminal"))
    await pool.deps.outbox.enqueue([note])
    return tr("Your next message in {place} goes on with this session.", place=format_chat(other).text)
