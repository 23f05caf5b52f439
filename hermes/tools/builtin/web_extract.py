"""`web_extract`: read web pages."""

import asyncio
import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.core.parts import Provenance, Source, ToolStatus
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.spill import write_spill
from hermes.tools.tool import Parallel, ToolOutput, tool
from hermes.web.access import NO_WEB

if TYPE_CHECKING:
    from hermes.web.fetch import Fetcher

MAX_URLS = 5
LIMIT = 15_000
"""Characters that are shown of a page."""
_LEAST, _MOST = 500, 50_000
_SCHEMELESS = re.compile(r"[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*\.[a-zA-Z]{2,}(?:[/?#].*)?")


def _addresses(arguments: Arguments) -> list[str]:
    """The URLs as they will be asked, each once; a bare host name is meant as https."""
    given = arguments.get("urls")
    urls = [str(url).strip() for url in given] if isinstance(given, list) else []
    urls = [f"https://{url}" if _SCHEMELESS.fullmatch(url) else url for url in urls]
    return list(dict.fromkeys(url for url in urls if url))


def _summary(arguments: Arguments) -> str:
    return "read " + ", ".join(_addresses(arguments))


@tool("web", parallel=Parallel.SAFE, repeatable=True, cap=100_000, summary=_summary, hosts=_addresses)
async def web_extract(
    ctx: ToolContext,
    urls: Annotated[list[str], "Up to 5 addresses."],
    char_limit: Annotated[int, "Characters to show of each page."] = LIMIT,
) -> ToolOutput:
    """Read web pages as markdown; text and JSON as they are. Of a long page the beginning is shown, all of it goes to a
    file. Only public addresses."""
    asked = _addresses({"urls": urls})
    if not asked:
        raise ToolError("No address is given.")
    if len(asked) > MAX_URLS:
        raise ToolError(f"{len(asked)} addresses are too many: at most {MAX_URLS} at once.")
    limit = max(_LEAST, min(char_limit, _MOST))
    if ctx.web is None:
        raise ToolError(NO_WEB)
    async with ctx.web.fetcher() as fetcher:
        read = await asyncio.gather(*(_read(fetcher, url) for url in asked))
    shown = [f"== {number} of {len(read)}: {_section(number, one, limit, ctx)}" for number, one in enumerate(read, 1)]
    return ToolOutput(
        text="\n\n".join(shown),
        status=ToolStatus.OK if any(one.ok for one in read) else ToolStatus.ERROR,
        provenance=Provenance(source=Source.WEB, label=" ".join(asked)),
    )


class _Read(Struct, frozen=True):
    """What came of one address."""

    asked: str
    text: str
    facts: tuple[str, ...] = ()
    ok: bool = True


async def _read(fetcher: "Fetcher", url: str) -> _Read:
    from hermes.web.pages import readable, text_of

    try:
        page = await fetcher.fetch(url, wanted=readable)
    except ToolError as error:
        return _Read(url, str(error), ok=False)
    facts = [f"at {page.url}"] if page.url != url else []
    if page.elsewhere:
        text = f"It redirects to another site, {page.elsewhere}, which was not asked. Give that address to read it."
        return _Read(url, text, tuple(facts))
    if page.status != 200:
        facts.append(f"status {page.status}")
    made = await text_of(page)
    facts += [f"title: {made.title}"] if made.title else []
    facts += [made.note] if made.note else []
    return _Read(url, made.text or "(no text)", tuple(facts), ok=page.status < 400)


def _section(number: int, read: _Read, limit: int, ctx: ToolContext) -> str:
    head = f"{read.asked} ==" + (f"\n[{'; '.join(read.facts)}]" if read.facts else "")
    # A page does not begin a section of its own.
    text = re.sub(r"^==", " ==", read.text, flags=re.MULTILINE)
    if len(text) <= limit:
        return f"{head}\n\n{text}"
    cut = text.rfind("\n", limit // 2, limit)
    shown = text[: cut if cut > 0 else limit]
    try:
        path = write_spill(text, ctx.spill, f"{ctx.call_id}_page{number}")
        rest = f"All of it is in {path}: use read_file with offset and limit, or search_files, on that path."
    except OSError as error:
        rest = f"The rest is lost: {error}."
    return f"{head}\n\n{shown}\n\n[The page goes on: {len(text)} characters in all, {len(shown)} shown. {rest}]"
