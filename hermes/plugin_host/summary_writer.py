"""A folder plug-in as the writer of summaries, where `context.engine` names it and its manifest says so.

What is condensed, what stays word for word, and what a summary may be is Hermes' to decide; the plug-in writes notes
in the place of a model. When it cannot, the model does.
"""

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hermes.core.events import Level, Notice
from hermes.core.messages import FinishReason, Message, Role, TextPart
from hermes.core.stream import Answer, Failure
from hermes.i18n.messages import N_
from hermes.llm.client import SideTask
from hermes.llm.exchange import Emit
from hermes.plugin_host.channel import PluginError, PluginRefusedError
from hermes.plugin_host.folders import PluginFolder
from hermes.plugin_host.process import PluginProcess
from hermes.safety.fencing import reveal_hidden_text

SUMMARY_SECONDS = 120.0
"""Seconds that a plug-in has for the notes on one part of a conversation."""


class _SummaryAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=200_000)]


_DECODER = msgspec.json.Decoder(_SummaryAnswer)


class PluginSummaryTask(SideTask):
    """The side task that asks a plug-in for notes, and `model` where that gives none."""

    def __init__(self, folder: PluginFolder, get_process: Callable[[], PluginProcess], model: SideTask) -> None:
        super().__init__(())
        self._folder = folder
        self._get_process = get_process
        self._model = model

    async def request_answer(
        self, system: str, text: str, emit: Emit, *, max_tokens: int | None = None
    ) -> Answer | Failure:
        """Return the plug-in's notes, or what the model answers."""
        params = {"instructions": system, "text": text, "max_tokens": max_tokens}
        try:
            raw = await self._get_process().request("engine.summarize", params, SUMMARY_SECONDS)
            notes = reveal_hidden_text(_DECODER.decode(raw).text).text
        except PluginError as error:
            reason = error.reason
        except PluginRefusedError as error:
            reason = str(error)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            reason = N_("its answer cannot be read")
        else:
            message = Message(role=Role.ASSISTANT, parts=(TextPart(text=notes),), finish=FinishReason.STOP)
            return Answer(message=message)
        line = N_("The plug-in {name} wrote no summary: {reason}. A model does.", name=self._folder.name, reason=reason)
        emit(Notice(Level.WARNING, line))
        return await self._model.request_answer(system, text, emit, max_tokens=max_tokens)

    async def context_window(self) -> int | None:
        """Return the window of the model, which may have to write the notes."""
        return await self._model.context_window()
