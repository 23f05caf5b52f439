"""Exports one session as a file: JSON lines, Markdown, or a self-contained web page without scripts."""

import os
import time
from collections.abc import Callable, Sequence

from hermes.admin.session_page import list_sub_agent_lines, render_session_page
from hermes.core.encoding import Plain, to_json
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_
from hermes.util.text import strip_terminal_controls

FORMATS = ("jsonl", "md", "html")
_ENDINGS = {"": "jsonl", ".jsonl": "jsonl", ".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}
SHARING_ADVICE = N_(
    "API keys were removed; names, paths and all that was said are in it: read it before you give it away."
)
"""What somebody should know who gives a page away."""

_SPEAKERS = {"user": "Person", "assistant": "Hermes", "tool": "Tool", "system": "System"}


def choose_format(file: str) -> str:
    """Return the format that the name of a file asks for. Raises UsageError for a name that asks for another one."""
    name = os.path.basename(file)
    ending = os.path.splitext(name)[1].lower()
    if ending not in _ENDINGS:
        raise UsageError(
            N_("{name} says no format that a session is written in.", name=name),
            N_("Name it .jsonl, .md or .html, or say which: --format jsonl, md or html."),
        )
    return _ENDINGS[ending]


def export_session(found: Plain, format_name: str, redact: Callable[[str], str]) -> bytes:
    """Export a session with its messages, as `Sessions.show` returns it, in one of `FORMATS`.

    A web page, which is made to be given away, gets no secret of this home: `redact` removes them.
    """
    session = {name: value for name, value in found.items() if name != "messages"}
    messages = found["messages"]
    assert isinstance(messages, list)
    if format_name == "jsonl":
        return b"".join(to_json(entry) + b"\n" for entry in [session, *messages])
    if format_name == "md":
        return _render_markdown(session, messages).encode("utf-8", "replace")
    return render_session_page(session, messages, redact).encode("utf-8", "replace")


def _render_markdown(session: Plain, messages: Sequence[Plain]) -> str:
    """Render headings and texts; tool output is fenced, so that nothing in it counts as Markdown."""
    lines = [f"# {_clean_heading(_session_title(session))}", "", _describe_session(session), ""]
    agents = [f"- {_clean_heading(strip_terminal_controls(line))}" for line in list_sub_agent_lines(session)]
    lines += ["Sub-agents:", "", *agents, ""] if agents else []
    for message in messages:
        text = strip_terminal_controls(_message_text(message))
        lines += [f"## {_speaker_name(message)} · {_format_time(message)}", ""]
        if message["role"] == "tool":
            text = _fence_text(text)
        lines += [text, ""] if text else []
        for name, arguments in _list_calls(message):
            lines += [
                f"`{strip_terminal_controls(name).replace('`', '')}`",
                "",
                _fence_text(strip_terminal_controls(arguments), "json"),
                "",
            ]
    return "\n".join(lines).rstrip() + "\n"


def _message_text(message: Plain) -> str:
    """Return the text of a message; a picture leaves a placeholder."""
    content = message["content"]
    if isinstance(content, list):
        return "\n".join(str(part["text"]) if part.get("type") == "text" else "[picture]" for part in content)
    return str(content or "")


def _list_calls(message: Plain) -> list[tuple[str, str]]:
    calls = message.get("tool_calls", [])
    assert isinstance(calls, list)
    return [(str(call["function"]["name"]), str(call["function"]["arguments"])) for call in calls]


def _speaker_name(message: Plain) -> str:
    name = f" {strip_terminal_controls(str(message['name']))}" if message.get("name") else ""
    return _SPEAKERS.get(str(message["role"]), str(message["role"])) + name


def _describe_session(session: Plain) -> str:
    return f"Session {session['id']}, {_format_time(session)}, {session.get('model') or 'no model'}"


def _session_title(session: Plain) -> str:
    return strip_terminal_controls(str(session.get("title") or session["id"]))


def _format_time(row: Plain) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["created_at"]))))


def _clean_heading(text: str) -> str:
    return " ".join(text.replace("#", "").split())


def _fence_text(text: str, kind: str = "") -> str:
    """Put the text between fences that are longer than any in it."""
    longest, run = 2, 0
    for one in text:
        run = run + 1 if one == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{text}\n{fence}"
