"""A home with sessions in it, made through the store."""

from hermes.core.frame import EpochFrame
from hermes.core.messages import user_message
from hermes.core.usage import Certainty, Cost, Usage
from hermes.store.records import CallSpend, NewSession, SpendOrigin
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.util.clock import Clock, SystemClock

FRAME = EpochFrame(provider="custom", model="mock-model", wire="chat_completions", encoder_version=1, system="s")


async def say_in(home: TempHome, session_id: str, *texts: str, clock: Clock | None = None) -> None:
    """Have these texts said in a session, which is made when there is none."""
    store = await Store.open(home.hermes, clock or SystemClock())
    try:
        if await store.sessions.get(session_id) is None:
            await store.sessions.create(
                NewSession(
                    id=session_id, source="cli", title=f"about {session_id}", model="mock-model", provider="custom"
                )
            )
            await store.epochs.begin(session_id, FRAME, "a new session")
        await store.messages.append(session_id, 1, None, [user_message(text) for text in texts])
    finally:
        await store.close()


async def spend(home: TempHome, *costs: int | None, clock: Clock | None = None, model: str = "mock-model") -> None:
    """Have model calls made: each with its cost in nano-dollars, None where the model has no price."""
    store = await Store.open(home.hermes, clock or SystemClock())
    try:
        for nano in costs:
            cost = Cost(certainty=Certainty.UNKNOWN) if nano is None else Cost(nano=nano, certainty=Certainty.COMPUTED)
            spent = CallSpend(usage=Usage(input=1_000, output=100), cost=cost)
            await store.spending.record(SpendOrigin(provider="custom", model=model, session_id="s1"), spent)
    finally:
        await store.close()


async def texts_of(home: TempHome, session_id: str) -> list[str]:
    """What was said in a session."""
    store = await Store.open(home.hermes, SystemClock())
    try:
        return [row.message.text for row in await store.messages.read(session_id)]
    finally:
        await store.close()
