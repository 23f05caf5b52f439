"""A session as one web page that stands alone: for `/share`, `hermes sessions share` and exports.

Answers are rendered Markdown, calls of tools are folded. Everything in it is text: no script, no picture, nothing that
is fetched, and a policy that forbids all of it should anything get through.
"""

import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from html import escape

from msgspec import Struct

from hermes.core.encoding import Plain
from hermes.i18n.messages import N_, get_language, tr
from hermes.markup.html_writer import render_html
from hermes.safety.fencing import reveal_hidden_text, show_control_characters
from hermes.util.text import to_one_line, truncate_middle

MAX_RESULT = 100_000
"""The most characters of one call's arguments or result; the middle of a longer one is left out, and said to be."""
_SPEAKERS = {"user": N_("Person"), "assistant": "Hermes", "tool": N_("Tool"), "system": N_("System")}
_FENCE = re.compile(r'</?untrusted(?: source="\w+")?(?: from="[^"]*")? id="[0-9a-f]{10}">\n?')
"""The marks around untrusted text, which are for models."""
_STYLE = """
:root{color-scheme:light dark;--text:#1f2328;--dim:#656d76;--back:#fff;--soft:#f4f5f7;--line:#d5d9de;
--me:#1a7f4b;--it:#2563b8}
@media(prefers-color-scheme:dark){:root{--text:#e3e6ea;--dim:#9299a3;--back:#15181c;--soft:#20242a;--line:#3a4048;
--me:#4cc38a;--it:#6ea8f0}}
*{box-sizing:border-box}
body{max-width:48rem;margin:0 auto;padding:1rem;font:1rem/1.6 system-ui,sans-serif;color:var(--text);
background:var(--back);overflow-wrap:anywhere}
h1{font-size:1.35rem;line-height:1.3;margin:.5rem 0}
header p,footer,time{color:var(--dim);font-size:.85rem}
footer{border-top:1px solid var(--line);margin-top:2rem;padding-top:.75rem}
article{border-left:3px solid var(--line);padding-left:.9rem;margin:1.4rem 0}
article.user{border-color:var(--me)}
article.assistant{border-color:var(--it)}
article>h2{font-size:.95rem;margin:0 0 .3rem}
article>h2 time{font-weight:normal;margin-left:.4rem}
.typed{white-space:pre-wrap;margin:0}
.said>:first-child{margin-top:0}
.said>:last-child{margin-bottom:0}
.said h1,.said h2,.said h3{font-size:1.1rem;margin:1rem 0 .4rem}
a{color:var(--it)}
pre,code{font:.85rem/1.5 ui-monospace,monospace;background:var(--soft);border-radius:4px}
code{padding:.1em .3em}
pre{white-space:pre-wrap;padding:.6rem .75rem;margin:.5rem 0}
pre code{padding:0}
blockquote{margin:.5rem 0;padding-left:.8rem;border-left:3px solid var(--line);color:var(--dim)}
table{border-collapse:collapse;display:block;overflow-x:auto}
th,td{border:1px solid var(--line);padding:.3rem .6rem;text-align:left}
details{margin:.5rem 0;background:var(--soft);border-radius:6px;padding:.35rem .75rem}
summary{cursor:pointer}
summary span{color:var(--dim);font:.85rem ui-monospace,monospace}
"""
_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; "
    f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
)


class _Call(Struct):
    """A call of a tool; the result comes with a later message."""

    call_id: str
    name: str
    arguments: str
    result: str | None = None


class _Entry(Struct):
    """What one article shows."""

    role: str
    name: str
    created_at: float
    text: str
    calls: list[_Call]


def render_session_page(session: Plain, messages: Sequence[Plain], redact: Callable[[str], str]) -> str:
    """Render a page; `redact` removes the secrets of every text before anything else is done with it."""

    def show_text(text: object) -> str:
        plain = show_control_characters(redact(_FENCE.sub("", str(text or ""))))
        return reveal_hidden_text(plain).text

    title = escape(to_one_line(show_text(session.get("title") or session["id"]), 200))
    about = tr(
        "Session {id}, {time}, {model}",
        id=str(session["id"]),
        time=_format_time(session["created_at"]),
        model=show_text(session.get("model")) or tr("no model"),
    )
    listed = "".join(f"<li>{escape(to_one_line(show_text(line), 200))}</li>" for line in list_sub_agent_lines(session))
    agents = f"<p>{escape(tr('Sub-agents:'))}</p><ul>{listed}</ul>" if listed else ""
    said = tr(
        "A conversation with Hermes, as a file that stands alone: opening it fetches nothing. API keys were removed."
    )
    parts = [
        f'<!doctype html>\n<html lang="{get_language()}"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<header><h1>{title}</h1><p>{escape(about)}</p>{agents}</header><main>",
        *(_render_entry(entry, show_text) for entry in _collect_entries(messages)),
        f"</main><footer>{escape(said)}</footer></body></html>",
    ]
    return "\n".join(parts) + "\n"


def list_sub_agent_lines(session: Plain) -> list[str]:
    """Return a line for each sub-agent of a session, and of theirs: number, name, state and session."""
    waiting, lines = [session], []
    while waiting:
        below = waiting.pop().get("sub_agents", ())
        assert isinstance(below, list | tuple)
        for one in below:
            lines.append(f"{one['number']} {one['name']}: {one['state']} ({one['id']})")
            waiting.append(one)
    return lines


def _collect_entries(messages: Sequence[Plain]) -> list[_Entry]:
    """Return what is shown, in order; results stand with their calls."""
    entries: list[_Entry] = []
    waiting: list[_Call] = []
    for message in messages:
        text = _read_content(message.get("content"))
        if message["role"] == "tool":
            asked = next((one for one in waiting if one.call_id == message.get("tool_call_id")), None)
            if asked is not None:
                asked.result = text
                waiting.remove(asked)
                continue
            calls = [_Call("", str(message.get("name") or ""), "", text)]
            text = ""
        else:
            calls = list(_read_calls(message))
            waiting = [*calls]
        if text.strip() or calls:
            created = float(str(message["created_at"]))
            entries.append(_Entry(str(message["role"]), str(message.get("name") or ""), created, text, calls))
    return entries


def _read_content(content: object) -> str:
    """Return the text of a message; a picture leaves a placeholder."""
    if not isinstance(content, list):
        return str(content or "")
    return "\n".join(str(part["text"]) if part.get("type") == "text" else tr("[picture]") for part in content)


def _read_calls(message: Plain) -> Iterator[_Call]:
    calls = message.get("tool_calls", [])
    assert isinstance(calls, list)
    for call in calls:
        function = call["function"]
        yield _Call(str(call.get("id") or ""), str(function["name"]), str(function["arguments"]))


def _render_entry(entry: _Entry, show_text: Callable[[object], str]) -> str:
    kind = entry.role if entry.role in _SPEAKERS else "other"
    speaker = tr(_SPEAKERS[entry.role]) if entry.role in _SPEAKERS else show_text(entry.role)
    head = f"<h2>{escape(speaker)} <time>{_format_time(entry.created_at)}</time></h2>"
    text = show_text(entry.text)
    if not text.strip():
        said = ""
    elif entry.role == "assistant":
        said = f'<div class="said">{render_html(text)}</div>'
    else:
        said = f'<p class="typed">{escape(text)}</p>'
    calls = "".join(_render_call(call, show_text) for call in entry.calls)
    return f'<article class="{kind}">{head}{said}{calls}</article>'


def _render_call(call: _Call, show_text: Callable[[object], str]) -> str:
    arguments, result = show_text(call.arguments), show_text(call.result)
    first = escape(to_one_line(arguments, 80))
    texts = [truncate_middle(text, MAX_RESULT) for text in (arguments, result) if text]
    blocks = "".join(f"<pre>{escape(text)}</pre>" for text in texts)
    return f"<details><summary>{escape(show_text(call.name))} <span>{first}</span></summary>{blocks}</details>"


def _format_time(seconds: object) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(seconds))))
