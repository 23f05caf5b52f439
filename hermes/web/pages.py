"""Turns a fetched page into text for a model: HTML as markdown, text as it is, everything else by name.

Decodes the bytes of a page: by byte order mark, by the server's header, by the page's declaration, by trying.
"""

import asyncio
import codecs
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

from hermes.core.encoding import to_json
from hermes.web.converter import START_PROGRAM, ConversionJob, main
from hermes.web.fetch import FetchedPage
from hermes.web.html_to_markdown import ConvertedPage

_KNOWN_ENCODINGS = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|us-?ascii|ascii|latin-?1|iso-?8859-?\d{1,2}|windows-?125\d|cp125\d|cp866|koi8-?[ru]|"
    r"mac-?roman|shift_?-?jis|sjis|windows-31j|ms932|cp932|euc-?(?:jp|kr|cn)|iso-2022-(?:jp|kr)|gb2312|gbk|gb18030|"
    r"big5(?:-?hkscs)?|tis-620",
    re.IGNORECASE,
)
"""Names of text encodings. Python knows others, some of which are none, or take quadratic time."""


_WEB_ENCODINGS = {
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "ascii": "cp1252",
    "us-ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "windows-31j": "cp932",
    "iso-8859-9": "cp1254",
    "tis-620": "cp874",
}
"""The encodings that are meant by a name on the web, where that is more than the name says."""


_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)


_META_CHARSET = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)


_XML_ENCODING = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)


_SEARCHED_BYTES = 4_096


def decode_body(body: bytes, content_type: str) -> str:
    """Decode a body. What cannot be read becomes U+FFFD; never raises."""
    for mark, name in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    named = _HEADER_CHARSET.search(content_type)
    declared = named[1] if named else _find_declared(body[:_SEARCHED_BYTES])
    codec = _find_codec(declared)
    if codec:
        return body.decode(codec, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        # A page cut within a character is UTF-8 all the same.
        return body.decode("utf-8" if error.reason == "unexpected end of data" else "cp1252", "replace")


def _find_declared(beginning: bytes) -> str:
    found = _META_CHARSET.search(beginning) or _XML_ENCODING.search(beginning)
    name = found[1].decode("ascii", "replace") if found else ""
    # A page that could be read so far is not in UTF-16, whatever it says.
    return "utf-8" if name.lower().startswith("utf-16") else name


def _find_codec(name: str) -> str:
    if not name or not _KNOWN_ENCODINGS.fullmatch(name):
        return ""
    name = name.lower()
    try:
        return codecs.lookup(_WEB_ENCODINGS.get(name, name)).name
    except LookupError:
        return ""


_CONVERT_SECONDS = 10.0
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_TEXT_TYPES = re.compile(
    r"text/.+|application/(?:(?:.+\+)?(?:json|xml|yaml)|x-yaml|toml|javascript|ecmascript|x-sh|x-python|x-ndjson|"
    r"jsonl|graphql|sql|rtf|x-tex|x-httpd-php|typescript)|message/rfc822|image/svg\+xml"
)
_TYPE_NAMES = {
    "application/pdf": "a PDF document",
    "application/zip": "a ZIP archive",
    "application/gzip": "an archive",
    "application/octet-stream": "binary data",
}
_MAX_OPEN_ELEMENTS = 2_000
"""Elements of one kind left open, beyond which a page is not parsed: that takes quadratic time."""
_BREAKING_TAG = re.compile(
    r"<(?:/?(?:p|div|h[1-6]|li|tr|ul|ol|table|section|article|blockquote|pre)|br|hr)\b[^>]*>", re.IGNORECASE
)
_ANY_TAG = re.compile(r"<[a-zA-Z/!?][^>]*>")


class PageText(Struct, frozen=True):
    """The text of a page. `note` says what was lost, or what the page is when it is no text."""

    text: str
    title: str = ""
    note: str = ""


def is_readable(headers: Mapping[str, str]) -> bool:
    """Return whether a body of this media type is text; one without a type is looked at."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return not media_type or bool(_TEXT_TYPES.fullmatch(media_type)) or media_type in _HTML_TYPES


async def extract_text(page: FetchedPage) -> PageText:
    """Return the page's text. Raises nothing except on cancellation."""
    media_type = page.media_type
    if page.is_unread:
        return PageText("", note=_describe_binary(media_type, page.headers.get("content-length", "")))
    if not media_type:
        media_type = _sniff_media_type(page.body)
        if not media_type:
            return PageText("", note=_describe_binary("", str(len(page.body))))
    text = decode_body(page.body, page.headers.get("content-type", ""))
    if media_type in _HTML_TYPES:
        return await text_from_html(text, page.url)
    if media_type.endswith("json"):
        return PageText(_indent_json(text))
    return PageText(text.strip("\n"))


async def text_from_html(text: str, url: str) -> PageText:
    """Convert HTML to markdown in a process of its own; to bare text where that is not possible."""
    converted = None if _is_too_deep(text) else await _run_conversion(text, url)
    if converted is None:
        return PageText(strip_tags(text), note="its markup could not be read, so this is its text without structure")
    hidden = converted["hidden"]
    note = f"{hidden} hidden passage{'s' if hidden > 1 else ''}, marked [hidden text: ...]" if hidden else ""
    return PageText(converted["text"], converted["title"], note)


def strip_tags(text: str) -> str:
    """Return HTML without its tags, in linear time whatever it is."""
    cut = text.rfind("<!--")
    if cut > text.rfind("-->"):
        text = text[:cut]
    text = _strip_invisible(text)
    text = _ANY_TAG.sub("", _BREAKING_TAG.sub("\n", text.replace("\r", "")))
    lines = (" ".join(line.split()) for line in html.unescape(text).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _strip_invisible(text: str) -> str:
    """Return the text without scripts, styles and comments. A tag that is never closed hides nothing."""
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


def _is_too_deep(text: str) -> bool:
    """Return whether the page leaves very many elements open, which costs the parser quadratic time."""
    lower = text.lower()
    return any(
        lower.count(f"<{tag}") - lower.count(f"</{tag}") > _MAX_OPEN_ELEMENTS
        for tag in ("div", "span", "font", "ul", "section")
    )


async def extract_list(text: str, job: ConversionJob) -> list[dict[str, str]]:
    """Return the rows of a list in HTML; see `converter.extract_rows`. Empty where the page has no such list."""
    output = None if _is_too_deep(text) else await _run_converter(text, job)
    try:
        return list(msgspec.json.decode(output, type=list[dict[str, str]])) if output else []
    except msgspec.MsgspecError:
        return []


async def _run_conversion(text: str, url: str) -> ConvertedPage | None:
    output = await _run_converter(text, ConversionJob(url=url, row="", title="", link="", snippet=""))
    try:
        return msgspec.json.decode(output, type=ConvertedPage) if output else None
    except msgspec.MsgspecError:
        return None


async def _run_converter(text: str, job: ConversionJob) -> bytes:
    """Return the converter's output. A child that is too slow, too large or broken gives none."""
    spec = importlib.util.find_spec("selectolax")
    if spec is None or spec.origin is None:
        return b""
    folders = (str(Path(spec.origin).parents[1]), str(Path(__file__).parents[2]))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-B", "-c", START_PROGRAM, *folders),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        cwd="/" if os.name == "posix" else None,
    )
    try:
        async with asyncio.timeout(_CONVERT_SECONDS):
            output, _ = await process.communicate(to_json(job) + b"\n" + text.encode("utf-8", "replace"))
    except TimeoutError:
        return b""
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                # Not `process.kill()`: that may reap the process before the loop's own watcher does.
                os.kill(process.pid, signal.SIGKILL)
            # Its pipes are drained so that the transport closes with it.
            await process.communicate()
    return output if process.returncode == 0 else b""


def _sniff_media_type(body: bytes) -> str:
    """Guess the media type of a body that came without one; empty: it is no text."""
    beginning = body[:1_024]
    if b"\0" in beginning or beginning.startswith(b"%PDF-"):
        return ""
    return (
        "text/html"
        if re.search(rb"<(!doctype|html|head|body|title|div|p)\b", beginning, re.IGNORECASE)
        else "text/plain"
    )


def _describe_binary(media_type: str, size: str) -> str:
    name = _TYPE_NAMES.get(media_type) or (f"of the type {media_type}" if media_type else "binary data")
    large = f", {int(size):,} bytes" if size.isascii() and size.isdigit() and len(size) < 19 else ""
    return f"it is {name}{large}: not text, so it was not read"


def _indent_json(text: str) -> str:
    """Return JSON with line breaks where it has none, so that it can be cut and searched by lines."""
    if text.count("\n") * 400 > len(text) or len(text) > 1_000_000:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        return text


if __name__ == "__main__":
    sys.exit(main())
