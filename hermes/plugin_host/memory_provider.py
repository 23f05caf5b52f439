"""A folder plug-in as the memory provider of a session, where `memory.provider` names it and its manifest says so."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hermes.core.frame import ToolSchema
from hermes.core.messages import Message, TextPart
from hermes.memory.provider import RecalledText, TurnStart
from hermes.plugin_host.channel import PluginError, PluginRefusedError
from hermes.plugin_host.folders import PluginFolder
from hermes.plugin_host.process import PluginProcess

MEMORY_SECONDS = 10.0
"""Seconds that a request to a memory has; the session gives it less where a message waits."""
_MAX_MESSAGES, _MAX_TEXT = 200, 8_000
"""The most messages, and the most characters of each, that a memory is shown before a compression."""


class _MemoryAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(max_length=16_000)] = ""


_DECODER = msgspec.json.Decoder(_MemoryAnswer)


class FolderMemoryProvider:
    """The memory of one session. What it raises its guard reports; nothing that it recalls counts as trusted."""

    def __init__(self, folder: PluginFolder, get_process: Callable[[], PluginProcess], session_id: str) -> None:
        self.name = folder.name
        self._get_process = get_process
        self._session_id = session_id

    async def initialise(self) -> None:
        """Start the plug-in's process."""
        await self._ask("open")

    async def system_prompt_block(self) -> str:
        """Return the plug-in's part of the prompt."""
        return await self._ask("prompt")

    def tool_schemas(self) -> Sequence[ToolSchema]:
        """Return no tools: those in its manifest are tools of the session already."""
        return ()

    async def handle_tool_call(self, name: str, arguments: Mapping[str, object]) -> str:
        """Refuse the call: there are no such tools."""
        raise PluginError(f"it has no tool {name} of its memory")

    async def on_turn_start(self, turn: TurnStart) -> None:
        """Do nothing: what counts comes with `prefetch`."""

    async def prefetch(self, query: str) -> RecalledText | None:
        """Return what it knows about a person's words."""
        text = await self._ask("recall", query=query)
        return RecalledText(text) if text else None

    async def after_turn(self, said: str, answered: str) -> None:
        """Tell it what was said, and answered."""
        await self._ask("learn", said=said, answered=answered)

    async def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """Return what a summary of these messages should not lose."""
        texts = [
            {"role": one.role.value, "text": part.text[:_MAX_TEXT]}
            for one in messages[-_MAX_MESSAGES:]
            for part in one.parts
            if isinstance(part, TextPart)
        ]
        return await self._ask("keep", messages=texts)

    async def on_memory_write(self, key: str, value: str) -> None:
        """Tell it what the memory tool has written."""
        await self._ask("written", key=key, value=value)

    async def on_delegation(self, task: str, result: str) -> None:
        """Tell it that a sub-agent has done a task."""
        await self._ask("delegated", task=task, result=result)

    async def on_session_end(self, session_id: str, summary: str) -> None:
        """Tell it that the session is closed."""
        await self._ask("close", summary=summary)

    async def shutdown(self) -> None:
        """Do nothing: the process serves other sessions, too."""

    async def _ask(self, event: str, **params: object) -> str:
        """Return the text of an answer. Raises PluginError."""
        try:
            raw = await self._get_process().request(
                f"memory.{event}", {"session": self._session_id, **params}, MEMORY_SECONDS
            )
            return _DECODER.decode(raw).text
        except PluginRefusedError as error:
            raise PluginError(str(error)) from None
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise PluginError("its answer cannot be read") from None
