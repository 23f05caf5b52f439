"""One session as a file: JSON lines, Markdown, or a web page that stands alone and runs nothing."""

import html
import time
from collections.abc import Sequence

import msgspec

from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import inert

FORMATS = ("jsonl", "md", "html")
_SPEAKERS = {"user": "Person", "assistant": "Hermes", "tool": "Tool", "system": "System"}
_STYLE = (
    "body{max-width:50rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif;color:#222}"
    "article{border-left:.25rem solid #ccc;padding:.1rem 1rem;margin:1rem 0}.user{border-color:#2a6}.assistant"
    "{border-color:#26a}h2{font-size:1rem;margin:.2rem 0}time{color:#777;font-weight:normal}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit;margin:.3rem 0}.call,.tool pre{font-family:monospace;"
    "font-size:.85rem;background:#f4f4f4;padding:.5rem}"
)


def exported(found: Plain, form: str) -> bytes:
    """A session with its messages, as `Sessions.show` gives it, in one of `FORMATS`."""
    session = {name: value for name, value in found.items() if name != "messages"}
    messages = found["messages"]
    assert isinstance(messages, list)
    if form == "jsonl":
        return b"".join(msgspec.json.encode(entry) + b"\n" for entry in [session, *messages])
    made = _markdown(session, messages) if form == "md" else _page(session, messages)
    return made.encode("utf-8", "replace")


def _markdown(session: Plain, messages: Sequence[Plain]) -> str:
    """Headings and texts; what tools said is fenced, so that nothing in it counts as Markdown."""
    lines = [f"# {_heading(_title(session))}", "", _about(session), ""]
    for message in messages:
        text = inert(_text(message))
        lines += [f"## {_speaker(message)} · {_when(message)}", ""]
        if message["role"] == "tool":
            text = _fenced(text)
        lines += [text, ""] if text else []
        for name, arguments in _calls(message):
            lines += [f"`{inert(name).replace('`', '')}`", "", _fenced(inert(arguments), "json"), ""]
    return "\n".join(lines).rstrip() + "\n"


def _page(session: Plain, messages: Sequence[Plain]) -> str:
    """A page in which every word is text: no script, no link, no picture, nothing loaded from anywhere."""
    title = _escaped(_title(session))
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>',
        f"<h1>{title}</h1><p>{_escaped(_about(session))}</p>",
    ]
    for message in messages:
        calls = "".join(
            f'<pre class="call">{_escaped(name)} {_escaped(arguments)}</pre>' for name, arguments in _calls(message)
        )
        text = _text(message)
        said = f"<pre>{_escaped(text)}</pre>" if text else ""
        kind = str(message["role"]) if message["role"] in _SPEAKERS else "other"
        head = f"<h2>{_escaped(_speaker(message))} <time>{_when(message)}</time></h2>"
        parts.append(f'<article class="{kind}">{head}{said}{calls}</article>')
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _text(message: Plain) -> str:
    """What a message says; a picture only leaves its place."""
    content = message["content"]
    if isinstance(content, list):
        return "\n".join(str(part["text"]) if part.get("type") == "text" else "[picture]" for part in content)
    return str(content or "")


def _calls(message: Plain) -> list[tuple[str, str]]:
    calls = message.get("tool_calls", [])
    assert isinstance(calls, list)
    return [(str(call["function"]["name"]), str(call["function"]["arguments"])) for call in calls]


def _speaker(message: Plain) -> str:
    name = f" {inert(str(message['name']))}" if message.get("name") else ""
    return _SPEAKERS.get(str(message["role"]), str(message["role"])) + name


def _about(session: Plain) -> str:
    return f"Session {session['id']}, {_when(session)}, {session.get('model') or 'no model'}"


def _title(session: Plain) -> str:
    return inert(str(session.get("title") or session["id"]))


def _when(row: Plain) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["created_at"]))))


def _heading(text: str) -> str:
    return " ".join(text.replace("#", "").split())


def _fenced(text: str, kind: str = "") -> str:
    """The text between fences that are longer than any in it."""
    longest, run = 2, 0
    for one in text:
        run = run + 1 if one == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{text}\n{fence}"


def _escaped(text: str) -> str:
    return html.escape(inert(text))
