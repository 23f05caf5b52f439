"""The tools of a caller: the model calls them, and the caller runs them."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from hermes.core.errors import UsageError
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.session_lookup import ParsedConversation
from hermes.sessions.caller_tools import CallerTool, check_caller_tools, make_caller_tool
from hermes.sessions.untrusted_text import program_note


def parse_tools(given: Sequence[object] | None, choice: object) -> tuple[CallerTool, ...]:
    """Return the caller's tools; none where it chooses that none may be called. Raises ApiRequestError."""
    if not given or choice == "none":
        return ()
    try:
        return check_caller_tools([_parse_tool(one, f"tools[{number}]") for number, one in enumerate(given)])
    except UsageError as error:
        raise ApiRequestError(400, str(error), param="tools") from None


def _parse_tool(given: object, where: str) -> CallerTool:
    if not isinstance(given, Mapping) or given.get("type") != "function":
        raise ApiRequestError(400, f"{where} must be of the type `function`.", param=where)
    inner = given.get("function")  # Responses have everything on one level
    described = inner if isinstance(inner, Mapping) else given
    try:
        return make_caller_tool(described.get("name"), described.get("description"), described.get("parameters"))
    except UsageError as error:
        raise ApiRequestError(400, str(error), param=where) from None


def add_tool_choice(parsed: ParsedConversation, tools: Sequence[CallerTool], choice: object) -> ParsedConversation:
    """Return the conversation with a note for the model where the caller wants one of its tools called."""
    if choice in (None, "auto", "none"):
        return parsed
    names = [one.name for one in tools]
    wanted = names if choice == "required" else [_read_choice(choice)]
    if not names or not {*wanted} <= {*names}:
        raise ApiRequestError(400, "`tool_choice` must name one of the `tools`.", param="tool_choice")
    note = program_note(f"[The program that asks wants a call of {' or '.join(wanted)} as the answer.]")
    return structs.replace(parsed, notes=(note,))


def _read_choice(choice: object) -> str:
    if not isinstance(choice, Mapping):
        return ""
    inner = choice.get("function")
    return str((inner if isinstance(inner, Mapping) else choice).get("name", ""))
