"""`web_extract`: reads web pages."""

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from hermes.core.errors import ToolError
from hermes.core.messages import Provenance, Source, ToolStatus
from hermes.tools.output import write_spill
from hermes.tools.schema import Arguments
from hermes.tools.session import NO_WEB, ToolContext, WebAccess
from hermes.tools.tool import AvailabilityCheck, Parallel, ToolOutput, tool
from hermes.util.text import to_one_line

if TYPE_CHECKING:
    from hermes.web.extract import ExtractedText

MAX_URLS = 5
DEFAULT_CHARACTERS = 15_000
"""The characters that are shown of a page."""
_MIN_CHARACTERS, _MAX_CHARACTERS = 500, 50_000
_MAX_PURPOSE = 1_000
_SCHEMELESS = re.compile(r"[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*\.[a-zA-Z]{2,}(?:[/?#].*)?")
_SIDE_TASK = "web_extract"


def _normalize_urls(arguments: Arguments) -> list[str]:
    """Return the URLs as they will be requested, each once; a bare host name is read as https."""
    given = arguments.get("urls")
    urls = [str(url).strip() for url in given] if isinstance(given, list) else []
    urls = [f"https://{url}" if _SCHEMELESS.fullmatch(url) else url for url in urls]
    return list(dict.fromkeys(url for url in urls if url))


def _format_summary(arguments: Arguments) -> str:
    return "read " + ", ".join(_normalize_urls(arguments))


@tool(
    "web",
    parallel=Parallel.SAFE,
    repeatable=True,
    cap=100_000,
    summary=_format_summary,
    hosts=_normalize_urls,
    availability=AvailabilityCheck(
        function="hermes.web.extract_engines:explain_missing", settings=("web.extract_backend",)
    ),
)
async def web_extract(
    ctx: ToolContext,
    urls: Annotated[list[str], "Up to 5 addresses."],
    char_limit: Annotated[int, "Characters of each page."] = DEFAULT_CHARACTERS,
    purpose: Annotated[str, "What to look for."] = "",
) -> ToolOutput:
    """Read public web pages as markdown. All of a long one goes to a file."""
    asked = _normalize_urls({"urls": urls})
    if not asked:
        raise ToolError("No address is given.")
    if len(asked) > MAX_URLS:
        raise ToolError(f"{len(asked)} addresses are too many: at most {MAX_URLS} at once.")
    limit = max(_MIN_CHARACTERS, min(char_limit, _MAX_CHARACTERS))
    if ctx.web is None:
        raise ToolError(NO_WEB)
    read = await _read_pages(ctx.web, asked)
    wanted = to_one_line(purpose, _MAX_PURPOSE)
    sections = await asyncio.gather(
        *(_format_section(number, one, limit, wanted, ctx) for number, one in enumerate(read, 1))
    )
    shown = [f"== {number} of {len(read)}: {section}" for number, section in enumerate(sections, 1)]
    return ToolOutput(
        text="\n\n".join(shown),
        status=ToolStatus.OK if any(one.ok for one in read) else ToolStatus.ERROR,
        provenance=Provenance(source=Source.WEB, label=" ".join(asked)),
    )


async def _read_pages(web: WebAccess, urls: Sequence[str]) -> "list[ExtractedText]":
    """Read pages by the service that the settings name, those of the person's own network by ourselves."""
    from hermes.web.extract import is_public_url, read_page

    found = await _ask_service(web, [url for url in urls if is_public_url(url)]) if web.extract_backend else {}
    rest = [url for url in urls if url not in found]
    if rest:
        async with web.make_fetcher() as fetcher:
            found |= zip(rest, await asyncio.gather(*(read_page(fetcher, url) for url in rest)), strict=True)
    return [found[url] for url in urls]


async def _ask_service(web: WebAccess, urls: Sequence[str]) -> "dict[str, ExtractedText]":
    from hermes.web.extract import EXTRACT_LIMITS, choose_service
    from hermes.web.fetch import find_host

    service = choose_service(web.extract_backend, web.extract_url, web.environ)
    if not urls:
        return {}
    own = () if service.base == service.engine.base else (find_host(service.base),)
    async with web.make_fetcher(*own, limits=EXTRACT_LIMITS) as fetcher:
        return dict(zip(urls, await service.read_pages(urls, fetcher), strict=True))


async def _format_section(number: int, read: "ExtractedText", limit: int, purpose: str, ctx: ToolContext) -> str:
    head = f"{read.asked} ==" + (f"\n[{'; '.join(read.facts)}]" if read.facts else "")
    if len(read.text) <= limit:
        return f"{head}\n\n{_defuse_headings(read.text)}"
    try:
        path = write_spill(_defuse_headings(read.text), ctx.spill_folder, f"{ctx.call_id}_page{number}")
        rest = f"All of it is in {path}: use read_file with offset and limit, or search_files, on that path."
    except OSError as error:
        rest = f"The rest is lost: {error}."
    shown, note = await _shorten_page(read, limit, purpose, ctx)
    return f"{head}\n\n{_defuse_headings(shown)}\n\n[{note} {rest}]"


def _defuse_headings(text: str) -> str:
    """Return a text in which no line begins a section of its own."""
    return re.sub(r"^==", " ==", text, flags=re.MULTILINE)


async def _shorten_page(read: "ExtractedText", limit: int, purpose: str, ctx: ToolContext) -> tuple[str, str]:
    """Return what is shown of a page that is too long, and what is said about that: it is condensed by a side model, or
    where there is none, or none that can do it, cut.
    """
    size, why = len(read.text), ""
    models = ctx.open_side_models() if read.ok and ctx.open_side_models is not None else None
    if models is not None and models.is_enabled(_SIDE_TASK):
        from hermes.web.condensation import LongPage, condense_page

        used: list[str] = []

        async def ask(system: str, text: str, max_tokens: int) -> str:
            answer = await models.ask(_SIDE_TASK, system, text, max_tokens=max_tokens)
            used.append(answer.model)
            return answer.text if answer.is_whole else f"{answer.text} [cut here]"

        page = LongPage(url=read.asked, text=read.text, purpose=purpose, limit=limit)
        try:
            made = await condense_page(page, ask)
            part = "" if made.read >= size else f"the first {made.read} of "
            return made.text, f"Condensed by {used[0]} from {part}{size} characters."
        except ToolError as error:
            why = f" It could not be condensed: {error}"
        except TimeoutError:
            why = " It could not be condensed in time."
    cut = read.text.rfind("\n", limit // 2, limit)
    shown = read.text[: cut if cut > 0 else limit]
    return shown, f"The page goes on: {size} characters in all, {len(shown)} shown.{why}"
