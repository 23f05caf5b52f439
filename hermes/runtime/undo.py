"""Undo and redo of turns of a live session: on disk, in memory, and by an epoch with a name."""

from hermes.core.frame import Rewrite
from hermes.core.messages import ImagePart, Message
from hermes.runtime.compression import EpochSwitcher
from hermes.runtime.conversation import LiveConversation, restore_note_times
from hermes.runtime.mailbox import InboundMessage
from hermes.runtime.recorder import TurnRecorder
from hermes.store.store import Store
from hermes.store.undo import REDONE, UNDONE, RedoneTurns, UndoneTurns
from hermes.tools.taint import Taint
from hermes.util.cancellation import run_to_completion


class TurnUndo:
    """Works between two turns. The frame stays, so what is left is still in the provider's cache."""

    def __init__(
        self,
        store: Store,
        conversation: LiveConversation,
        recorder: TurnRecorder,
        taint: Taint,
        epoch_switcher: EpochSwitcher,
    ) -> None:
        self._store = store
        self._conversation = conversation
        self._recorder = recorder
        self._taint = taint
        self._epoch_switcher = epoch_switcher

    async def undo_turns(self, turns: int, checkpoint_id: int | None = None) -> UndoneTurns | None:
        """Undo the last turns, which stay in the store; return None when there is none.

        `checkpoint_id` is stored with them; a redo restores the files by it.
        """
        await self._recorder.flush()
        return await run_to_completion(self._store_undo(turns, checkpoint_id))

    async def redo_turns(self) -> RedoneTurns | None:
        """Redo what was undone last; return None when something was said since, or nothing was undone."""
        await self._recorder.flush()
        return await run_to_completion(self._store_redo())

    async def _store_undo(self, turns: int, checkpoint_id: int | None) -> UndoneTurns | None:
        frame = self._conversation.frame
        found = await self._store.undo.undo_turns(
            self._conversation.session_id, turns, frame, checkpoint_id=checkpoint_id
        )
        if found is not None:
            await self._reload_transcript()
            cached = found.whole and Rewrite.NO_REASONING not in frame.rewrites
            await self._epoch_switcher.enter_epoch(found.epoch, frame, UNDONE, None, self._recorder.emit, cached=cached)
        return found

    async def _store_redo(self) -> RedoneTurns | None:
        frame = self._conversation.frame
        found = await self._store.undo.redo_turns(self._conversation.session_id, frame)
        if found is not None:
            await self._reload_transcript()
            cached = Rewrite.NO_REASONING not in frame.rewrites
            await self._epoch_switcher.enter_epoch(found.epoch, frame, REDONE, None, self._recorder.emit, cached=cached)
        return found

    async def _reload_transcript(self) -> None:
        """Read the transcript from disk, and find what the model was told last about time and folder."""
        conversation = self._conversation
        rows = await self._store.messages.read(conversation.session_id)
        conversation.messages.replace_all(row.message for row in rows)
        conversation.last_told = conversation.last_cwd = None
        restore_note_times(conversation, [(row.created_at, row.message) for row in rows])
        self._taint.restart_from(conversation.messages)


def to_inbound(message: Message) -> InboundMessage:
    """Return a person's message as it was posted: words and pictures, without attachments."""
    images: list[ImagePart] = []
    for part in message.parts[1:]:
        if not isinstance(part, ImagePart):
            break
        images.append(part)
    return InboundMessage(text=message.text, images=tuple(images))
