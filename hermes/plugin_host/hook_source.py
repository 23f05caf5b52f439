"""The hooks of a folder plug-in: calls to its process, and its answers, which are taken strictly or not at all."""

from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field, structs

from hermes.core.messages import Provenance, Source
from hermes.hooks.events import EVENT_TRAITS, HookEvent, HookRole
from hermes.hooks.hook import HookCall, HookDecision, HookError, HookOutcome
from hermes.i18n.messages import N_
from hermes.plugin_host.channel import PluginError, PluginRefusedError
from hermes.plugin_host.folders import PluginFolder
from hermes.plugin_host.given_sources import GivenSources
from hermes.plugin_host.process import PluginProcess
from hermes.plugin_host.tools import plugin_source
from hermes.safety.fencing import reveal_hidden_text
from hermes.util.text import to_one_line

HOOK_SECONDS = 5.0
"""Seconds that a hook of a plug-in has for its answer."""
_MAX_LINE = 400


class _HookAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer on the wire: the fields of `HookOutcome`, nothing else."""

    decision: HookDecision = HookDecision.NONE
    reason: Annotated[str, Meta(max_length=2_000)] = ""
    arguments: dict[str, object] | None = None
    context: Annotated[str, Meta(max_length=16_000)] = ""
    text: str | None = None
    notice: Annotated[str, Meta(max_length=2_000)] = ""
    ends_turn: bool = field(default=False)


_DECODER = msgspec.json.Decoder(_HookAnswer)


class FolderHookSource:
    """The hooks that a plug-in's manifest names."""

    def __init__(self, folder: PluginFolder, get_process: Callable[[], PluginProcess], given: GivenSources) -> None:
        self.name = folder.name
        self._reaches_hosts = bool(folder.manifest.hosts)
        self._get_process = get_process
        self._given = given
        self._events = frozenset(folder.manifest.hooks)

    def handles(self, call: HookCall) -> bool:
        """Return whether the manifest names this event."""
        return call.event in self._events

    async def run_hook(self, call: HookCall) -> HookOutcome:
        """Ask the plug-in. Raises HookError for whatever kept it from answering, as a line for the person."""
        if call.event not in self._events:
            raise HookError(N_("The plug-in {name} has no hook {event}.", name=self.name, event=call.event))
        await self._given.add(call.sources)
        try:
            answer = await self._get_process().request("hook", call, HOOK_SECONDS)
        except (PluginError, PluginRefusedError) as error:
            reason = error.reason if isinstance(error, PluginError) else str(error)
            raise HookError(
                N_(
                    "The hook {event} of the plug-in {name} failed: {error}.",
                    event=call.event,
                    name=self.name,
                    error=reason,
                )
            ) from None
        why = ""
        try:
            outcome = decode_outcome(call.event, answer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
            why = to_one_line(str(error), _MAX_LINE)
        if why:
            raise HookError(
                N_(
                    "The hook {event} of the plug-in {name} gave an answer that cannot be used: {why}.",
                    event=call.event,
                    name=self.name,
                    why=why,
                )
            )
        return structs.replace(outcome, provenance=self._find_provenance())

    def _find_provenance(self) -> Provenance | None:
        """Return where its texts come from: from others, where it reaches hosts or was ever given untrusted text."""
        if not self._reaches_hosts and not self._given.list_all():
            return None
        return Provenance(Source.OTHER, plugin_source(self.name))

    async def close(self) -> None:
        """Do nothing: the process serves other sessions, too, and its host ends it."""


def decode_outcome(event: HookEvent, raw: Raw) -> HookOutcome:
    """Return the outcome that an answer holds. Raises MsgspecError, and ValueError for what the event does not take."""
    answer = _DECODER.decode(raw)
    traits = EVENT_TRAITS[event]
    is_guard = traits.role is HookRole.GUARD
    refusals: Mapping[str, bool] = {
        "decision": answer.decision is not HookDecision.NONE and not is_guard,
        "arguments": answer.arguments is not None and event is not HookEvent.PRE_TOOL_CALL,
        "context": bool(answer.context) and not traits.takes_context,
        "text": answer.text is not None and traits.role is not HookRole.TRANSFORM,
        "ends_turn": answer.ends_turn and not is_guard,
    }
    for name, is_refused in refusals.items():
        if is_refused:
            raise ValueError(f"`{name}` means nothing at {event}")
    return HookOutcome(
        decision=answer.decision,
        reason=_clean_line(answer.reason),
        arguments=answer.arguments,
        context=reveal_hidden_text(answer.context).text if answer.context else "",
        text=answer.text,
        notice=_clean_line(answer.notice),
        ends_turn=answer.ends_turn,
    )


def _clean_line(text: str) -> str:
    return to_one_line(reveal_hidden_text(text).text, _MAX_LINE) if text else ""
