"""What other agents' files say about the tools of an agent: Claude Code's `disallowedTools`, opencode's `tools` and
`permission`, codex's `sandbox_mode`. A limit that is not known here keeps an agent from being used: none is lost.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes.i18n.messages import N_
from hermes.tools.toolsets import MCP_TOOLSET

_WRITING_TOOLS = ("write_file", "patch", "terminal", "process")
"""What an agent has not that only reads."""
_FILE_WRITERS = _WRITING_TOOLS[:2]
_PATTERN = re.compile(r"\([^)]*\)")


class ForeignLimits(Struct, frozen=True, kw_only=True):
    """The limits of an agent, by the names of tools that stand in its file."""

    tools: tuple[str, ...] | None = None
    """The only tools that it has; None where the file says nothing of that."""
    without: tuple[str, ...] = ()
    """The tools that it has not."""
    problem: str = ""
    """Why the agent cannot be used, as the end of a sentence; empty where it can."""


def split_tool_names(text: str) -> tuple[str, ...]:
    """Return the names in a text in which they stand between commas or blanks, with or without brackets."""
    return tuple(dict.fromkeys(text.strip("[]").replace(",", " ").replace('"', " ").replace("'", " ").split()))


def read_foreign_limits(fields: Mapping[str, str]) -> ForeignLimits:
    """Return the limits in the head of a file."""
    given = _select_below(fields, "tools.")
    rights = {name: value for name, value in _select_below(fields, "permission.").items() if value}
    without = tuple(dict.fromkeys(map(_name_server, _list_denied(fields, given, rights))))
    tools = _list_allowed(given, rights) if given.get("*") == "false" or rights.get("*") == "deny" else None
    return ForeignLimits(tools=tools, without=without, problem=_find_problem(fields, without))


def _select_below(fields: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in fields.items() if key.startswith(prefix)}


def _list_denied(fields: Mapping[str, str], given: Mapping[str, str], rights: Mapping[str, str]) -> list[str]:
    """Return the tools that are taken away; a limit by pattern takes a tool away as a whole."""
    found = [*split_tool_names(_PATTERN.sub("", fields.get("disallowedTools", "")))]
    found += [name for name, value in given.items() if value == "false" and name != "*"]
    found += [name.partition(".")[0] for name, value in rights.items() if value == "deny" and name != "*"]
    if fields.get("sandbox_mode") == "read-only" or fields.get("permissionMode") == "plan":
        found += _WRITING_TOOLS
    return [*found, *(_FILE_WRITERS if {"edit", "write"} & {name.lower() for name in found} else ())]


def _list_allowed(given: Mapping[str, str], rights: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tools that are left where all others are taken away."""
    found = [name for name, value in given.items() if value == "true"]
    found += [name for name, value in rights.items() if value != "deny" and "." not in name]
    return tuple(dict.fromkeys(found))


def _name_server(name: str) -> str:
    """Return the tool set of a server for a tool of it: what is taken away of one takes the whole server away."""
    return f"{MCP_TOOLSET}-{name.split('__')[1]}" if name.startswith("mcp__") else name


def _find_problem(fields: Mapping[str, str], without: Sequence[str]) -> str:
    if any("*" in name or "?" in name for name in without):
        return N_("it takes tools away by patterns, which are not known here")
    if any(key == "permissions" or key.startswith("permissions.") for key in fields):
        return N_("its `permissions` are rules that are not known here")
    if fields.get("permission") == "deny":
        return N_("it may use no tool")
    if "true" in (fields.get("disable"), fields.get("disabled")):
        return N_("it is switched off there")
    return N_("it is a main agent, and no sub-agent") if fields.get("mode") == "primary" else ""
