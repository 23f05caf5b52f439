"""A fetched page as text for a model: HTML as markdown, text as it is, everything else by name."""

import asyncio
import contextlib
import html
import importlib.util
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.web import converter
from hermes.web.charset import decoded
from hermes.web.fetch import Page
from hermes.web.html_to_markdown import Converted

_CONVERT_SECONDS = 10.0
_HTML = ("text/html", "application/xhtml+xml")
_TEXTUAL = re.compile(
    r"text/.+|application/(?:(?:.+\+)?(?:json|xml|yaml)|x-yaml|toml|javascript|ecmascript|x-sh|x-python|x-ndjson|"
    r"jsonl|graphql|sql|rtf|x-tex|x-httpd-php|typescript)|message/rfc822|image/svg\+xml"
)
_NAMED = {
    "application/pdf": "a PDF document",
    "application/zip": "a ZIP archive",
    "application/gzip": "an archive",
    "application/octet-stream": "binary data",
}
_OPENING = 2_000
"""Elements of one kind left open, beyond which a page is not parsed: that takes time by the square of them."""
_BREAK = re.compile(
    r"<(?:/?(?:p|div|h[1-6]|li|tr|ul|ol|table|section|article|blockquote|pre)|br|hr)\b[^>]*>", re.IGNORECASE
)
_TAG = re.compile(r"<[a-zA-Z/!?][^>]*>")


class Text(Struct, frozen=True):
    """What a page says. `kind` names the media type in words where it is no text, `note` says what was lost."""

    text: str
    title: str = ""
    note: str = ""


def readable(headers: Mapping[str, str]) -> bool:
    """Whether a body of this media type is text; one without a type is looked at."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return not media_type or bool(_TEXTUAL.fullmatch(media_type)) or media_type in _HTML


async def text_of(page: Page) -> Text:
    """The page's text. Never raises but for cancellation."""
    media_type = page.media_type
    if page.unread:
        return Text("", note=_named(media_type, page.headers.get("content-length", "")))
    if not media_type:
        media_type = _sniffed(page.body)
        if not media_type:
            return Text("", note=_named("", str(len(page.body))))
    text = decoded(page.body, page.headers.get("content-type", ""))
    if media_type in _HTML:
        return await from_html(text, page.url)
    if media_type.endswith("json"):
        return Text(_indented(text))
    return Text(text.strip("\n"))


async def from_html(text: str, url: str) -> Text:
    """HTML as markdown, made in a process of its own; as bare text where that is not possible."""
    converted = None if _deep(text) else await _converted(text, url)
    if converted is None:
        return Text(bare(text), note="its markup could not be read, so this is its text without structure")
    hidden = converted["hidden"]
    note = f"{hidden} hidden passage{'s' if hidden > 1 else ''}, marked [hidden text: ...]" if hidden else ""
    return Text(converted["text"], converted["title"], note)


def bare(text: str) -> str:
    """HTML without its tags, in linear time whatever it is."""
    cut = text.rfind("<!--")
    if cut > text.rfind("-->"):
        text = text[:cut]
    text = _without(text)
    text = _TAG.sub("", _BREAK.sub("\n", text.replace("\r", "")))
    lines = (" ".join(line.split()) for line in html.unescape(text).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _without(text: str) -> str:
    """The text without scripts, styles and comments. A tag that is never closed hides nothing."""
    found: list[str] = []
    at = 0
    lower = text.lower()
    for match in re.finditer(r"<(script|style|template|svg)\b|<!--", lower):
        if match.start() < at:
            continue
        end_mark = f"</{match[1]}" if match[1] else "-->"
        end = lower.find(end_mark, match.end())
        if end < 0:
            break
        found.append(text[at : match.start()])
        closed = lower.find(">", end)
        at = closed + 1 if closed >= 0 else len(text)
    return "".join([*found, text[at:]])


def _deep(text: str) -> bool:
    """Whether the page leaves very many elements open, which costs the parser the square of their number."""
    lower = text.lower()
    return any(
        lower.count(f"<{tag}") - lower.count(f"</{tag}") > _OPENING for tag in ("div", "span", "font", "ul", "section")
    )


async def listed(text: str, job: converter.Job) -> list[dict[str, str]]:
    """The rows of a list in HTML; see `converter.rows`. None where the page has no such list."""
    said = None if _deep(text) else await _child(text, job)
    try:
        return list(msgspec.json.decode(said, type=list[dict[str, str]])) if said else []
    except msgspec.MsgspecError:
        return []


async def _converted(text: str, url: str) -> Converted | None:
    said = await _child(text, converter.Job(url=url, row="", title="", link="", snippet=""))
    try:
        return msgspec.json.decode(said, type=Converted) if said else None
    except msgspec.MsgspecError:
        return None


async def _child(text: str, job: converter.Job) -> bytes:
    """What the converter says. A child that is too slow, too large or broken says nothing."""
    spec = importlib.util.find_spec("selectolax")
    if spec is None or spec.origin is None:
        return b""
    folders = (str(Path(spec.origin).parents[1]), str(Path(converter.__file__).parents[2]))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-B", "-c", converter.START, *folders),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        cwd="/" if os.name == "posix" else None,
    )
    try:
        async with asyncio.timeout(_CONVERT_SECONDS):
            said, _ = await process.communicate(msgspec.json.encode(job) + b"\n" + text.encode("utf-8", "replace"))
    except TimeoutError:
        return b""
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                # Not `process.kill()`: that may reap the process before the loop's own watcher does.
                os.kill(process.pid, signal.SIGKILL)
            # Its pipes are drained so that the transport closes with it.
            await process.communicate()
    return said if process.returncode == 0 else b""


def _sniffed(body: bytes) -> str:
    """The media type of a body that came without one; empty: no text."""
    beginning = body[:1_024]
    if b"\0" in beginning or beginning.startswith(b"%PDF-"):
        return ""
    return (
        "text/html"
        if re.search(rb"<(!doctype|html|head|body|title|div|p)\b", beginning, re.IGNORECASE)
        else "text/plain"
    )


def _named(media_type: str, size: str) -> str:
    name = _NAMED.get(media_type) or (f"of the type {media_type}" if media_type else "binary data")
    large = f", {int(size):,} bytes" if size.isascii() and size.isdigit() and len(size) < 19 else ""
    return f"it is {name}{large}: not text, so it was not read"


def _indented(text: str) -> str:
    """JSON with line breaks where it has none, so that it can be cut and searched by lines."""
    if text.count("\n") * 400 > len(text) or len(text) > 1_000_000:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        return text
