"""A home with a scripted model, and editors over it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Reply
from hermes.testing.server import ScriptedServer
from tests.acp.editor import Editor

QUIET = {"auxiliary": {"title": {"enabled": False}}, "skills": {"evolution": "off"}}
"""Settings without side tasks, whose requests no script expects."""
OpenEditor = Callable[..., Any]


@asynccontextmanager
async def open_editor(
    replies: list[Reply],
    *words: str,
    capabilities: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> AsyncIterator[Editor]:
    """Start a scripted model, a home that uses it, and an editor in it."""
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config={**QUIET, **(config or {})}) as home:
            async with Editor(home, *words, capabilities=capabilities) as editor:
                editor.server = server
                yield editor


@pytest.fixture(name="open_editor")
def give_open_editor() -> OpenEditor:
    """Return what opens editors."""
    return open_editor
