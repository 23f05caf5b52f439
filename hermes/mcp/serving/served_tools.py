"""The tools that a server offers: their definitions, their arguments, and what a call of one returns."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from hermes.core.encoding import Plain, to_json
from hermes.core.errors import HermesError
from hermes.core.json_rpc import INVALID_PARAMS, RpcError
from hermes.i18n.messages import N_
from hermes.mcp.serving.calls import McpCall, Result, decode_params

_PAGE = 50
_NO_ARGUMENTS = Raw(b"{}")
ArgumentsT = TypeVar("ArgumentsT", bound=Struct)
AnswerCall = Callable[[Raw, McpCall], Awaitable[Result]]


class ServedTool(Struct, frozen=True, kw_only=True):
    """A tool: what clients are told of it, and what answers a call.

    `answer` gets the arguments as JSON text. Raises HermesError for what the caller's model can fix, RpcError for what
    is wrong with the request.
    """

    name: str
    description: str
    schema: Mapping[str, object]
    answer: AnswerCall
    title: str = ""
    annotations: Mapping[str, bool] = {}

    def describe(self) -> Plain:
        """Return the definition as clients are sent it."""
        told: Plain = {"name": self.name, "description": self.description, "inputSchema": self.schema}
        if self.title:
            told["title"] = self.title
        if self.annotations:
            told["annotations"] = self.annotations
        return told


def build_schema(arguments: type[Struct]) -> Plain:
    """Return the JSON Schema of a tool's arguments, which stand flat in a struct."""
    whole = msgspec.json.schema(arguments)
    found: Plain = dict(whole["$defs"][arguments.__name__])
    found.pop("title", None)
    found.pop("description", None)
    return found


def decode_arguments(arguments: Raw, kind: type[ArgumentsT]) -> ArgumentsT:
    """Return the arguments of a call. Raises ToolArgumentError that says what is wrong with them."""
    try:
        return msgspec.json.decode(bytes(arguments), type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ToolArgumentError(N_("The arguments cannot be used: {why}.", why=str(error))) from None


class ToolArgumentError(HermesError):
    """The arguments of a call do not fit the tool's schema; its caller can fix that."""


def make_result(value: Mapping[str, object]) -> Result:
    """Return the result of a call: a value as JSON, for models as text and for programs as it is."""
    return {"content": [{"type": "text", "text": to_json(value).decode()}], "structuredContent": value}


def make_error_result(text: str) -> Result:
    """Return the result of a call that has failed, in words for the caller's model."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


class _ListParams(Struct):
    cursor: str | None = None


class _CallParams(Struct):
    name: str
    arguments: Raw = _NO_ARGUMENTS


class ToolMethods:
    """Answers `tools/list` and `tools/call`."""

    def __init__(self, tools: Sequence[ServedTool]) -> None:
        self._tools = {one.name: one for one in tools}

    async def list_tools(self, params: Raw, call: McpCall) -> Result:
        """Return a page of the definitions."""
        del call
        cursor = decode_params(params, _ListParams).cursor or "0"
        listed = [*self._tools.values()]
        if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 9 and int(cursor) <= len(listed)):
            raise RpcError(INVALID_PARAMS, "The cursor is none of this list's.")
        start = int(cursor)
        page = [one.describe() for one in listed[start : start + _PAGE]]
        more = {"nextCursor": str(start + _PAGE)} if start + _PAGE < len(listed) else {}
        return {"tools": page, **more}

    async def call_tool(self, params: Raw, call: McpCall) -> Result:
        """Return the result of a call; what has gone wrong in it is a result, too, which the caller's model reads."""
        given = decode_params(params, _CallParams)
        tool = self._tools.get(given.name)
        if tool is None:
            raise RpcError(INVALID_PARAMS, f"There is no tool {given.name[:80]!r}.")
        arguments = Raw(bytes(given.arguments))  # apart from the whole message, which need not stay in memory
        if bytes(arguments) == b"null":
            arguments = _NO_ARGUMENTS
        if not bytes(arguments).startswith(b"{"):
            raise RpcError(INVALID_PARAMS, "The arguments must be an object.")
        try:
            return await tool.answer(arguments, call)
        except HermesError as error:
            return make_error_result(str(error))
