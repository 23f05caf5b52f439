"""Tools that look into a page: its console and scripts, its pictures, and what it looks like."""

import contextlib
from typing import Annotated

from hermes.browser.evaluation import evaluate_expression
from hermes.browser.pictures import list_images, take_screenshot
from hermes.browser.tab import Tab
from hermes.core.errors import BrowserError
from hermes.core.messages import ImagePart
from hermes.tools.builtin.browser.page_results import find_provenance, open_pages, refuse, use_page
from hermes.tools.session import ToolContext
from hermes.tools.tool import ToolOutput, tool

_CAP = 12_000


@tool(
    "browser",
    deferred=True,
    cap=_CAP,
    summary=lambda args: "run JavaScript on the page" if args.get("expression") else "read the console",
    shown=lambda args: str(args.get("expression") or ""),
)
async def browser_console(
    ctx: ToolContext,
    clear: Annotated[bool, "Forget the messages then."] = False,
    expression: Annotated[str, "JavaScript; its value is returned."] = "",
) -> ToolOutput:
    """Read the messages of the page's console in the browser, or evaluate JavaScript on the page."""
    if expression:
        return await _evaluate(ctx, expression)
    async with open_pages(ctx) as pages:
        tab = await pages.browser.get_current_tab()
        with contextlib.suppress(BrowserError):  # a page that cannot be looked at has its console still
            await pages.learn_secrets(tab)
        log = tab.console
        lines = [f"{one.level}: {one.text}" for one in log.messages]
        lines[:0] = [f"[{log.dropped} earlier messages are gone]"] if log.dropped else []
        if clear:
            log.clear()
        text = pages.hide_secrets("\n".join(lines))[-_CAP:]
        return ToolOutput(text=text or "The console is empty.", provenance=find_provenance(tab.list_addresses()))


async def _evaluate(ctx: ToolContext, expression: str) -> ToolOutput:
    async with open_pages(ctx) as pages:

        async def evaluate(tab: Tab) -> str:
            await pages.learn_secrets(tab)
            return f"value: {pages.hide_secrets(await evaluate_expression(tab, expression))}"

        return await use_page(ctx, evaluate)


@tool("browser", deferred=True, repeatable=True, cap=_CAP, summary=lambda args: "list the page's pictures")
async def browser_get_images(ctx: ToolContext) -> ToolOutput:
    """List the pictures (images) on the page in the browser: address, description, size."""
    async with open_pages(ctx) as pages:
        tab = await pages.browser.get_current_tab()
        try:
            images = list_images(await pages.take_snapshot(tab))
        except BrowserError as error:
            return refuse(pages, tab, error)
        lines = [
            f"{one.width}x{one.height}{' (in view)' if one.is_in_view else ''} {one.alt!r} {one.source}"
            for one in images
        ]
        provenance = find_provenance(tab.list_addresses())
        text = pages.hide_secrets("\n".join(lines))
        return ToolOutput(text=text or "There are no pictures on the page.", provenance=provenance)


@tool("browser", deferred=True, repeatable=True, cap=_CAP, summary=lambda args: f"look: {args['question']}")
async def browser_vision(
    ctx: ToolContext,
    question: Annotated[str, "What to look for."],
    annotate: Annotated[bool, "Frame and name the elements by their refs."] = False,
) -> ToolOutput:
    """Take a screenshot of what is in view in the browser, to see what its text does not tell: layout, charts,
    pictures."""
    async with open_pages(ctx) as pages:
        tab = await pages.browser.get_current_tab()
        try:
            snapshot = await pages.take_snapshot(tab)
            picture = await tab.run(take_screenshot(tab, snapshot, annotate=annotate))
        except BrowserError as error:
            return refuse(pages, tab, error)
        provenance = find_provenance(tab.list_addresses())
        if picture is None:
            return ToolOutput(text="A dialog has opened: answer it by browser_dialog first.", provenance=provenance)
        image = ImagePart(media_type="image/jpeg", data=picture, provenance=provenance)
        # A model that takes no pictures is given none: what is known of the page in words is in browser_snapshot.
        return ToolOutput(text=f"The page as it looks now. {question}", images=(image,), provenance=provenance)
