"""Tools without an agent, for programs that have a loop of their own: their schemas, calling one, what they need.

The functions are synchronous, may be called from any thread and inside a running event loop, and share one session in a
thread of its own. `docs/library.md` describes them.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from hermes.config.environment import copy_environment, merge_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.errors import UsageError
from hermes.sessions.options import SessionOptions
from hermes.sessions.python_library.argument_types import find_working_folder
from hermes.sessions.python_library.tool_session import ToolSession, check_not_in_call
from hermes.sessions.session_tools import OWNED_TOOLS, select_session_tools
from hermes.tools.registry import (
    KnownTool,
    Toolbox,
    ToolRegistry,
    ToolSurroundings,
    list_session_tools,
    read_listing,
)
from hermes.tools.tool import Tool

T = TypeVar("T")
_UNLISTED_PREFIXES = ("hermes-", "tools")


def get_tool_definitions(
    enabled_toolsets: Sequence[str] | None = None, disabled_toolsets: Sequence[str] | None = None
) -> list[dict[str, object]]:
    """Return the schemas that a model is sent for these tool sets (None: the usual ones), in the form of OpenAI's chat
    API. What cannot work here is left out, and so are tools of MCP servers, which are asked when a session starts.

    Raises ConfigError for a tool set that does not exist.
    """
    around = _read_surroundings()
    options = SessionOptions(
        enabled_toolsets=None if enabled_toolsets is None else tuple(enabled_toolsets),
        disabled_toolsets=tuple(disabled_toolsets or ()),
    )
    toolbox: Toolbox = select_session_tools(around, options, _list_bound_tools(around))[0]
    return [
        {
            "type": "function",
            "function": {
                "name": one.name,
                "description": one.description,
                "parameters": msgspec.json.decode(one.parameters),
            },
        }
        for one in toolbox.list_schemas()
    ]


def handle_function_call(
    function_name: str,
    function_args: Mapping[str, object] | str,
    task_id: str | None = None,
    *,
    enabled_toolsets: Sequence[str] | None = None,
    disabled_toolsets: Sequence[str] | None = None,
    cwd: str | os.PathLike[str] = "",
) -> str:
    """Call a tool and return its result as text; a call that is refused or fails is a text that says why.

    `function_args` are an object, or its JSON text. The call passes hooks, settings and the permission gate like one of
    a model; nobody is there to ask, so what needs an answer is refused. Another `task_id`, choice of tool sets or
    working folder than before begins a fresh session with its own processes. Ctrl-C ends the call and is raised again.
    Raises UsageError for arguments of another type and from inside a tool, ConfigError for unusable settings.
    """
    name: object = function_name
    given: object = function_args
    if not isinstance(name, str) or not isinstance(given, str | Mapping):
        raise UsageError("handle_function_call takes a name, and the arguments as a dict or as JSON text.")
    options = SessionOptions(
        platform="api",
        cwd=find_working_folder(cwd) or os.getcwd(),
        enabled_toolsets=None if enabled_toolsets is None else tuple(enabled_toolsets),
        disabled_toolsets=tuple(disabled_toolsets or ()),
    )
    return _CALLER.call(
        _SessionKey(str(locate_home(copy_environment()).root), task_id or "", options), function_name, given
    )


def get_toolset_for_tool(name: str) -> str | None:
    """Return the tool set of a tool; None for one that does not exist, or that a server of MCP has."""
    tool = _build_registry(_read_surroundings()).find_known(name)
    return tool.toolset if tool is not None else None


def check_toolset_requirements() -> dict[str, bool]:
    """Return for each tool set whether all of its tools can work here: their keys, addresses and programs are there."""
    around = _read_surroundings()
    registry = _build_registry(around)
    return {
        name: not any(
            around.explain_missing(tool) for one in toolset.tools if (tool := registry.find_known(one)) is not None
        )
        for name, toolset in sorted(registry.load_toolsets().items())
        if toolset.tools and not name.startswith(_UNLISTED_PREFIXES)
    }


def close_tool_session() -> None:
    """End the session that `handle_function_call` uses, with its processes; the next call begins a fresh one."""
    _CALLER.close()


def _read_surroundings() -> ToolSurroundings:
    environ = copy_environment()
    home = locate_home(environ)
    return ToolSurroundings(merge_dotenv(environ, home.env_file), load_settings(home).settings)


def _build_registry(around: ToolSurroundings) -> ToolRegistry:
    registry = ToolRegistry()
    for one in _list_bound_tools(around):
        registry.register(one)
    return registry


def _list_bound_tools(around: ToolSurroundings) -> list[KnownTool]:
    """Return the tools that sessions add to the built-in ones, as they are listed, and those of enabled packages."""

    def refuse() -> Sequence[Tool]:
        raise UsageError("A tool of a session is called in one.")

    names = [name for owned in OWNED_TOOLS.values() for name in owned if name in read_listing()]
    if not around.settings.memory.enabled:
        names.remove("memory")
    found: list[KnownTool] = [*list_session_tools(names, refuse)]
    if os.path.lexists(locate_home(around.environ).consent_file):
        from hermes.sessions.features.packages import load_new_tools

        found += load_new_tools().tools
    return found


class _SessionKey(Struct, frozen=True):
    """What a session is for; another key is another session."""

    home: str
    task_id: str
    options: SessionOptions


class _DirectCaller:
    """One session with a loop in a thread of its own. Calls wait for each other."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Hold nothing: in a forked process the thread of its parent does not run."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._session: ToolSession | None = None
        self._key: _SessionKey | None = None

    def call(self, key: _SessionKey, name: str, arguments: Mapping[str, object] | str) -> str:
        """Call a tool in the session of that key."""
        check_not_in_call()
        with self._lock:
            return self._run(self._call_tool(key, name, arguments))

    def close(self) -> None:
        """End the session and the thread; calling it twice is fine."""
        check_not_in_call()
        with self._lock:
            loop, thread = self._loop, self._thread
            if loop is None or thread is None:
                return
            self._run(self._close_session())
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
            self._loop = self._thread = None

    def _run(self, work: Coroutine[object, object, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="hermes-tools", daemon=True)
            self._thread.start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    async def _call_tool(self, key: _SessionKey, name: str, arguments: Mapping[str, object] | str) -> str:
        if self._session is None or key != self._key:
            await self._close_session()
            session = ToolSession(copy_environment(), key.options)
            self._session, self._key = await session.__aenter__(), key
        return (await self._session.call(name, arguments)).text

    async def _close_session(self) -> None:
        session, self._session, self._key = self._session, None, None
        if session is not None:
            await session.__aexit__(None, None, None)


_CALLER = _DirectCaller()
atexit.register(_CALLER.close)
os.register_at_fork(after_in_child=_CALLER.forget)
