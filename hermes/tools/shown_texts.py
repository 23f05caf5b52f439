"""Shows in questions what file tools put into files that act later: a yes is for the words that were shown."""

from msgspec import structs

from hermes.safety.autorun_files import is_autorun_file
from hermes.tools.permissions.gate import PermissionDecision
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool
from hermes.util.text import escape_confusable_characters, is_long


def show_texts(
    decision: PermissionDecision, tool: Tool, arguments: Arguments, context: ToolContext
) -> PermissionDecision:
    """Return a question with the text of each file that acts later, if untrusted content is in the conversation."""
    texts = _list_texts(tool, arguments, context) if context.state.taint.list_sources() else {}
    shown = (one for named in texts.values() for one in named if one)
    return structs.replace(decision, subject="\n".join((decision.subject, *shown)))


def list_shown_files(
    decision: PermissionDecision, tool: Tool, arguments: Arguments, context: ToolContext
) -> tuple[str, ...]:
    """Return the files (resolved) of which a question has shown all that the call puts into them.

    Of a long question whoever asks it shows only the beginning and the end.
    """
    if is_long(escape_confusable_characters(decision.subject)):
        return ()
    texts, shown = _list_texts(tool, arguments, context), f"{decision.subject}\n"
    return tuple(path for path, named in texts.items() if all(one and f"\n{one}\n" in shown for one in named))


def _list_texts(tool: Tool, arguments: Arguments, context: ToolContext) -> dict[str, list[str]]:
    """Return what a call puts into each file (resolved) that acts later, by each of the names that the call has for it;
    an empty text for what does not stand in the call.
    """
    found: dict[str, list[str]] = {}
    for path, text in tool.texts(arguments).items():
        real = context.resolve_real_path(path) or path
        if is_autorun_file(real):
            found.setdefault(real, []).append(f"{path}:\n{text}" if text is not None else "")
    return found
