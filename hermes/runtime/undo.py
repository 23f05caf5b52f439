"""Turns of a live session taken back and brought back: on disk, in memory, and by an epoch with a name."""

from hermes.core.frame import Rewrite
from hermes.core.messages import Message
from hermes.core.parts import ImagePart
from hermes.runtime.compression import Turning
from hermes.runtime.conversation import Conversation, recall_notes
from hermes.runtime.mailbox import Inbound
from hermes.runtime.recorder import Recorder
from hermes.store.store import Store
from hermes.store.undo import REDONE, UNDONE, BroughtBack, TakenBack
from hermes.tools.taint import Taint
from hermes.util.cancellation import whole


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

    async def take_back(self, turns: int, checkpoint_id: int | None = None) -> TakenBack | None:
        """Go on without the last turns, which stay in the store; None when there is none.

        `checkpoint_id` is remembered: by it the files of before come back.
        """
        await self._recorder.flush()
        return await whole(self._taken(turns, checkpoint_id))

    async def bring_back(self) -> BroughtBack | None:
        """Go on with what was taken back last; None when something was said since, or nothing was taken back."""
        await self._recorder.flush()
        return await whole(self._brought())

    async def _taken(self, turns: int, checkpoint_id: int | None) -> TakenBack | None:
        frame = self._conversation.frame
        found = await self._store.take_back(self._conversation.session_id, turns, frame, checkpoint_id=checkpoint_id)
        if found is not None:
            await self._reread()
            cached = found.whole and Rewrite.NO_REASONING not in frame.rewrites
            await self._turning.go_on(found.epoch, frame, UNDONE, None, self._recorder.emit, cached=cached)
        return found

    async def _brought(self) -> BroughtBack | None:
        frame = self._conversation.frame
        found = await self._store.bring_back(self._conversation.session_id, frame)
        if found is not None:
            await self._reread()
            cached = Rewrite.NO_REASONING not in frame.rewrites
            await self._turning.go_on(found.epoch, frame, REDONE, None, self._recorder.emit, cached=cached)
        return found

    async def _reread(self) -> None:
        """Take the transcript from disk, and with it what the model was told last about time and place."""
        conversation = self._conversation
        rows = await self._store.transcript(conversation.session_id)
        conversation.messages.restart(row.message for row in rows)
        conversation.last_told = conversation.last_cwd = None
        recall_notes(conversation, [(row.created_at, row.message) for row in rows])
        self._taint.restart_from(conversation.messages)


def said_again(message: Message) -> Inbound:
    """What a person said, as it was posted: words and pictures, without what came along with them."""
    images: list[ImagePart] = []
    for part in message.parts[1:]:
        if not isinstance(part, ImagePart):
            break
        images.append(part)
    return Inbound(text=message.text, images=tuple(images))
