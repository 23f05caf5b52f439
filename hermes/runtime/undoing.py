"""Turns of a live session taken back and brought back: on disk, in memory, and by an epoch with a name."""

from hermes.agent.turn import Emit
from hermes.core.frame import Rewrite
from hermes.core.messages import Message
from hermes.core.parts import ImagePart
from hermes.runtime.compression import Turning
from hermes.runtime.conversation import Conversation, recall_notes
from hermes.runtime.mailbox import Inbound
from hermes.runtime.recorder import Recorder
from hermes.store.store import Store
from hermes.store.undoing import REDONE, UNDONE, BroughtBack, TakenBack
from hermes.tools.taint import Taint
from hermes.util.scopes import whole


class Undoing:
    """Works between two turns. The frame stays, so what is left is still what the provider's cache knows."""

    def __init__(
        self, store: Store, conversation: Conversation, recorder: Recorder, taint: Taint, turning: Turning
    ) -> None:
        self._store = store
        self._conversation = conversation
        self._recorder = recorder
        self._taint = taint
        self._turning = turning

    async def take_back(self, turns: int, checkpoint_id: int | None, emit: Emit) -> TakenBack | None:
        """Go on without the last turns; None when there is none."""
        await self._recorder.flush()
        return await whole(self._taken(turns, checkpoint_id, emit))

    async def bring_back(self, emit: Emit) -> BroughtBack | None:
        """Go on with what was taken back last; None when something was said since, or nothing was taken back."""
        await self._recorder.flush()
        return await whole(self._brought(emit))

    async def _taken(self, turns: int, checkpoint_id: int | None, emit: Emit) -> TakenBack | None:
        frame = self._conversation.frame
        found = await self._store.take_back(self._conversation.session_id, turns, frame, checkpoint_id=checkpoint_id)
        if found is not None:
            await self._reread()
            cached = found.whole and Rewrite.NO_REASONING not in frame.rewrites
            await self._turning.go_on(found.epoch, frame, UNDONE, None, emit, cached=cached)
        return found

    async def _brought(self, emit: Emit) -> BroughtBack | None:
        frame = self._conversation.frame
        found = await self._store.bring_back(self._conversation.session_id, frame)
        if found is not None:
            await self._reread()
            cached = Rewrite.NO_REASONING not in frame.rewrites
            await self._turning.go_on(found.epoch, frame, REDONE, None, emit, cached=cached)
        return found

    async def _reread(self) -> None:
        """Take the transcript from disk, and with it what the model was told last about time and place."""
        conversation = self._conversation
        rows = await self._store.transcript(conversation.session_id)
        conversation.messages[:] = [row.message for row in rows]
        conversation.last_told = conversation.last_cwd = None
        recall_notes(conversation, [(row.created_at, row.message) for row in rows])
        self._taint.restart(conversation.messages)


def said_again(message: Message) -> Inbound:
    """What a person said, as it was posted: words and pictures, without what came along with them."""
    images: list[ImagePart] = []
    for part in message.parts[1:]:
        if not isinstance(part, ImagePart):
            break
        images.append(part)
    return Inbound(text=message.text, images=tuple(images))
