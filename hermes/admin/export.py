"""Exports one session as a file: JSON lines, Markdown, or a self-contained web page without scripts."""

import html
import time
from collections.abc import Sequence

from hermes.core.encoding import Plain, to_json
from hermes.util.text import strip_terminal_controls

FORMATS = ("jsonl", "md", "html")


_SPEAKERS = {"user": "Person", "assistant": "Hermes", "tool": "Tool", "system": "System"}


_STYLE = (
    "body{max-width:50rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif;color:#222}"
    "article{border-left:.25rem solid #ccc;padding:.1rem 1rem;margin:1rem 0}.user{border-color:#2a6}.assistant"
    "{border-color:#26a}h2{font-size:1rem;margin:.2rem 0}time{color:#777;font-weight:normal}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit;margin:.3rem 0}.call,.tool pre{font-family:monospace;"
    "font-size:.85rem;background:#f4f4f4;padding:.5rem}"
)


def export_session(found: Plain, format_name: str) -> bytes:
    """Export a session with its messages, as `Sessions.show` returns it, in one of `FORMATS`."""
    session = {name: value for name, value in found.items() if name != "messages"}
    messages = found["messages"]
    assert isinstance(messages, list)
    if format_name == "jsonl":
        return b"".join(to_json(entry) + b"\n" for entry in [session, *messages])
    made = _render_markdown(session, messages) if format_name == "md" else _render_page(session, messages)
    return made.encode("utf-8", "replace")


def _render_markdown(session: Plain, messages: Sequence[Plain]) -> str:
    """Render headings and texts; tool output is fenced, so that nothing in it counts as Markdown."""
    lines = [f"# {_clean_heading(_session_title(session))}", "", _describe_session(session), ""]
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


def _render_page(session: Plain, messages: Sequence[Plain]) -> str:
    """Render a page in which every word is text: no script, no link, no picture, nothing loaded from anywhere."""
    title = _escape_html(_session_title(session))
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>',
        f"<h1>{title}</h1><p>{_escape_html(_describe_session(session))}</p>",
    ]
    for message in messages:
        calls = "".join(
            f'<pre class="call">{_escape_html(name)} {_escape_html(arguments)}</pre>'
            for name, arguments in _list_calls(message)
        )
        text = _message_text(message)
        said = f"<pre>{_escape_html(text)}</pre>" if text else ""
        kind = str(message["role"]) if message["role"] in _SPEAKERS else "other"
        head = f"<h2>{_escape_html(_speaker_name(message))} <time>{_format_time(message)}</time></h2>"
        parts.append(f'<article class="{kind}">{head}{said}{calls}</article>')
    return "\n".join([*parts, "</body></html>"]) + "\n"


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


def _escape_html(text: str) -> str:
    return html.escape(strip_terminal_controls(text))
