"""A session of a browser with one target: a page, or a frame that has a process of its own."""

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Raw

from hermes.browser.cdp import CALL_SECONDS, CdpConnection, CdpError
from hermes.browser.protocol import EvaluateResult, IsolatedWorld, RemoteObject, ResolvedNode, TargetInfo
from hermes.core.errors import BrowserError

T = TypeVar("T")
_WORLD = "hermes"
_NO_PARAMS: Mapping[str, object] = {}


class TargetSession:
    """Calls that go to one target. Scripts run in a world of their own, which the page's scripts cannot reach."""

    def __init__(self, connection: CdpConnection, session_id: str, target: TargetInfo) -> None:
        self.connection = connection
        self.session_id = session_id
        self.target = target
        self._worlds: dict[str, int] = {}
        """The world of each frame."""

    async def call(
        self, method: str, params: Mapping[str, object] = _NO_PARAMS, *, seconds: float | None = CALL_SECONDS
    ) -> Raw:
        """Call a method of the target; see `CdpConnection.call`."""
        return await self.connection.call(method, params, self.session_id, seconds)

    async def call_for(
        self,
        result: type[T],
        method: str,
        params: Mapping[str, object] = _NO_PARAMS,
        *,
        seconds: float | None = CALL_SECONDS,
    ) -> T:
        """Call a method of the target for a value of a type; see `CdpConnection.call_for`."""
        return await self.connection.call_for(result, method, params, self.session_id, seconds)

    def post(self, method: str, params: Mapping[str, object] = _NO_PARAMS) -> None:
        """Call a method of the target, and wait for nothing."""
        self.connection.post(method, params, self.session_id)

    def forget_worlds(self) -> None:
        """Forget the worlds of scripts: a frame has another document."""
        self._worlds.clear()

    async def open_world(self, frame_id: str, seconds: float = CALL_SECONDS) -> int:
        """Return the world of scripts in a frame."""
        known = self._worlds.get(frame_id)
        if known is None:
            params = {"frameId": frame_id, "worldName": _WORLD}
            made = await self.call_for(IsolatedWorld, "Page.createIsolatedWorld", params, seconds=seconds)
            known = self._worlds[frame_id] = made.execution_context_id
        return known

    async def evaluate(self, expression: str, frame_id: str, *, seconds: float = CALL_SECONDS) -> object:
        """Return what an expression of our own gives in a frame; a promise is waited for.

        Raises BrowserError when it throws, or its document goes meanwhile.
        """
        params = {
            "expression": expression,
            "contextId": await self.open_world(frame_id, seconds),
            "returnByValue": True,
            "awaitPromise": True,
        }
        try:
            return _take_value(await self.call_for(EvaluateResult, "Runtime.evaluate", params, seconds=seconds))
        except CdpError:
            self.forget_worlds()
            raise

    async def call_on_node(
        self, node_id: int, frame_id: str, function: str, *arguments: object, seconds: float = CALL_SECONDS
    ) -> object:
        """Return what a function of our own gives for a node, which is its `this`; an argument that is a
        `RemoteObject` is given as what it stands for.
        """
        found = await self.resolve_node(node_id, frame_id)
        params = {
            "functionDeclaration": function,
            "objectId": found.object_id,
            "arguments": [
                {"objectId": one.object_id} if isinstance(one, RemoteObject) else {"value": one} for one in arguments
            ],
            "returnByValue": True,
            "awaitPromise": True,
        }
        return _take_value(await self.call_for(EvaluateResult, "Runtime.callFunctionOn", params, seconds=seconds))

    async def resolve_node(self, node_id: int, frame_id: str) -> RemoteObject:
        """Return a node as scripts of our own can be given it. Raises CdpError when it is gone."""
        params = {"backendNodeId": node_id, "executionContextId": await self.open_world(frame_id)}
        return (await self.call_for(ResolvedNode, "DOM.resolveNode", params)).object


def _take_value(found: EvaluateResult) -> object:
    if found.exception_details is not None:
        thrown = found.exception_details.exception
        reason = (thrown.description if thrown is not None else "") or found.exception_details.text
        raise BrowserError(f"The page cannot be read: {reason[:200]}")
    return found.result.value
