"""Hooks of the gateway itself: before a message from a chat is handled, and once it has started."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.config.settings import Settings
from hermes.hooks.events import HookEvent
from hermes.hooks.hook import HookCall, HookDecision, HookSource
from hermes.sessions.features.features import may_have_hooks
from hermes.sessions.services import Services

if TYPE_CHECKING:
    from hermes.hooks.dispatcher import HookDispatcher

_LOG = logging.getLogger(__name__)


class GatewayHooks:
    """The hooks of one gateway, by the settings as they are now; none of projects or of plug-ins."""

    def __init__(self, services: Services, folder: str) -> None:
        self._services = services
        self._folder = folder
        self._settings: Settings | None = None
        self._dispatcher: HookDispatcher | None = None

    async def review_message(self, text: str, *, platform: str, chat: str, person: str) -> str:
        """Return why a message from a chat is not handled; empty where it is."""
        dispatcher = await self._open()
        if dispatcher is None:
            return ""
        details = {"platform": platform, "chat_id": chat, "person": person}
        call = HookCall(event=HookEvent.PRE_GATEWAY_DISPATCH, folder=self._folder, text=text, details=details)
        result = await dispatcher.run(call)
        return result.reason if result.decision is HookDecision.DENY else ""

    async def tell_started(self, platforms: Sequence[str]) -> None:
        """Tell hooks that the gateway is ready."""
        dispatcher = await self._open()
        if dispatcher is not None:
            details = {"platforms": list(platforms)}
            await dispatcher.run(HookCall(event=HookEvent.GATEWAY_STARTUP, folder=self._folder, details=details))

    async def close(self) -> None:
        """End what hooks keep running."""
        if self._dispatcher is not None:
            await self._dispatcher.close()

    async def _open(self) -> "HookDispatcher | None":
        """Return the dispatcher for the settings as they are now; None where there are no hooks."""
        services = self._services
        if self._settings is services.settings:
            return self._dispatcher
        await self.close()
        self._settings, self._dispatcher = services.settings, None
        if not may_have_hooks(services.home, services.settings):
            return None
        from hermes.hooks.dispatcher import HookDispatcher
        from hermes.hooks.shell_hooks import ShellHookDeps, make_shell_sources
        from hermes.sessions.plugins.hooks import describe_states, make_hook_environ, read_hook_sets

        sets = read_hook_sets(services.home, services.settings, self._folder, services.process_environ)
        services.add_notices(describe_states(sets))
        deps = ShellHookDeps(
            folder=self._folder,
            environ=make_hook_environ(services.process_environ, self._folder),
            find_supervisors=lambda: services.supervisors,
            resolve_path=lambda path: path,
            write_transcript=lambda: "",
        )
        sources: list[HookSource] = [*make_shell_sources([one for one in sets if not one.place.is_project], deps)]
        self._dispatcher = HookDispatcher(sources, _LOG.warning) if sources else None
        return self._dispatcher
