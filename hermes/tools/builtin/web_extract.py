"""`web_extract`: reads web pages."""

import asyncio
import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.core.messages import Provenance, Source, ToolStatus
from hermes.tools.output import write_spill
from hermes.tools.schema import Arguments
from hermes.tools.session import NO_WEB, ToolContext
from hermes.tools.tool import Parallel, ToolOutput, tool

if TYPE_CHECKING:
    from hermes.web.fetch import WebFetcher

MAX_URLS = 5
DEFAULT_CHARACTERS = 15_000
"""The characters that are shown of a page."""
_MIN_CHARACTERS, _MAX_CHARACTERS = 500, 50_000
_SCHEMELESS = re.compile(r"[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*\.[a-zA-Z]{2,}(?:[/?#].*)?")


def _normalize_urls(arguments: Arguments) -> list[str]:
    """Return the URLs as they will be requested, each once; a bare host name is read as https."""
    given = arguments.get("urls")
    urls = [str(url).strip() for url in given] if isinstance(given, list) else []
    urls = [f"https://{url}" if _SCHEMELESS.fullmatch(url) else url for url in urls]
    return list(dict.fromkeys(url for url in urls if url))


def _format_summary(arguments: Arguments) -> str:
    return "read " + ", ".join(_normalize_urls(arguments))


@tool("web", parallel=Parallel.SAFE, repeatable=True, cap=100_000, summary=_format_summary, hosts=_normalize_urls)
async def web_extract(
    ctx: ToolContext,
    urls: Annotated[list[str], "Up to 5 addresses."],
    char_limit: Annotated[int, "Characters to show of each page."] = DEFAULT_CHARACTERS,
) -> ToolOutput:
    """Read web pages as markdown; text and JSON as they are. Of a long page the beginning is shown, all of it goes to a
    file. Only public addresses."""
    asked = _normalize_urls({"urls": urls})
    if not asked:
        raise ToolError("No address is given.")
    if len(asked) > MAX_URLS:
        raise ToolError(f"{len(asked)} addresses are too many: at most {MAX_URLS} at once.")
    limit = max(_MIN_CHARACTERS, min(char_limit, _MAX_CHARACTERS))
    if ctx.web is None:
        raise ToolError(NO_WEB)
    async with ctx.web.make_fetcher() as fetcher:
        read = await asyncio.gather(*(_read_page(fetcher, url) for url in asked))
    shown = [
        f"== {number} of {len(read)}: {_format_section(number, one, limit, ctx)}" for number, one in enumerate(read, 1)
    ]
    return ToolOutput(
        text="\n\n".join(shown),
        status=ToolStatus.OK if any(one.ok for one in read) else ToolStatus.ERROR,
        provenance=Provenance(source=Source.WEB, label=" ".join(asked)),
    )


class _PageResult(Struct, frozen=True):
    """The result of one address."""

    asked: str
    text: str
    facts: tuple[str, ...] = ()
    ok: bool = True


async def _read_page(fetcher: "WebFetcher", url: str) -> _PageResult:
    from hermes.web.pages import extract_text, is_readable

    try:
        page = await fetcher.fetch_page(url, wanted=is_readable)
    except ToolError as error:
        return _PageResult(url, str(error), ok=False)
    facts = [f"at {page.url}"] if page.url != url else []
    if page.other_site:
        text = f"It redirects to another site, {page.other_site}, which was not asked. Give that address to read it."
        return _PageResult(url, text, tuple(facts))
    if page.status != 200:
        facts.append(f"status {page.status}")
    made = await extract_text(page)
    facts += [f"title: {made.title}"] if made.title else []
    facts += [made.note] if made.note else []
    return _PageResult(url, made.text or "(no text)", tuple(facts), ok=page.status < 400)


def _format_section(number: int, read: _PageResult, limit: int, ctx: ToolContext) -> str:
    head = f"{read.asked} ==" + (f"\n[{'; '.join(read.facts)}]" if read.facts else "")
    # A page does not begin a section of its own.
    text = re.sub(r"^==", " ==", read.text, flags=re.MULTILINE)
    if len(text) <= limit:
        return f"{head}\n\n{text}"
    cut = text.rfind("\n", limit // 2, limit)
    shown = text[: cut if cut > 0 else limit]
    try:
        path = write_spill(text, ctx.spill_folder, f"{ctx.call_id}_page{number}")
        rest = f"All of it is in {path}: use read_file with offset and limit, or search_files, on that path."
    except OSError as error:
        rest = f"The rest is lost: {error}."
    return f"{head}\n\n{shown}\n\n[The page goes on: {len(text)} characters in all, {len(shown)} shown. {rest}]"
