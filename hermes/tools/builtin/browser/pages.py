"""Tools for whole pages: opening, looking at, scrolling and waiting, tabs and dialogs."""

from typing import Annotated, Literal

from hermes.browser import navigation, scrolling, waiting
from hermes.browser.settling import note_moment, settle
from hermes.browser.tab import Tab
from hermes.core.errors import BrowserError
from hermes.tools.builtin.browser.page_results import make_output, open_pages, refuse, use_page
from hermes.tools.session import ToolContext
from hermes.tools.tool import ToolOutput, tool

_CAP = 12_000


@tool(
    "browser",
    deferred=True,
    brief="use web pages: open, click, fill in forms",
    cap=_CAP,
    summary=lambda args: f"open {args['url']}",
)
async def browser_navigate(ctx: ToolContext, url: Annotated[str, "Its address."]) -> ToolOutput:
    """Open a web page in the browser and show it: text, and elements with refs such as e12. Act on it by tool_call with
    browser_click(ref), browser_type(ref, text, submit), browser_select(ref, values), browser_press(key),
    browser_scroll(direction), browser_wait(text), browser_back(); each tells what has changed. Also browser_snapshot,
    hover, drag, upload, tabs, dialog, console, get_images, vision. To only read a page use web_extract."""

    address = navigation.normalize_address(url)

    async def go(tab: Tab) -> None:
        await navigation.navigate(tab, address)

    return await use_page(ctx, go, opens=address)


@tool(
    "browser",
    deferred=True,
    repeatable=True,
    cap=_CAP,
    summary=lambda args: "look at the page",
)
async def browser_snapshot(
    ctx: ToolContext,
    full: Annotated[bool, "All of the page, a part at a time."] = False,
    page: Annotated[int, "Which part, with full."] = 1,
    find: Annotated[str, "Only lines with these words."] = "",
) -> ToolOutput:
    """Show the page in the browser: what is in view first, the rest by counts. Needed only to see more or find
    something, since every action tells what it has changed."""
    async with open_pages(ctx) as pages:
        tab = await pages.browser.get_current_tab()
        try:
            return make_output(await pages.describe_page(tab, full=full, page=page, find=find.strip()))
        except BrowserError as error:
            return refuse(pages, tab, error)


@tool("browser", deferred=True, cap=_CAP, summary=lambda args: f"scroll {args['direction']}")
async def browser_scroll(
    ctx: ToolContext,
    direction: Literal["up", "down"],
    ref: Annotated[str, "Scroll the part of the page that this is in."] = "",
) -> ToolOutput:
    """Scroll the page in the browser by a screen; shows what comes into view and was not shown before."""

    async def scroll(tab: Tab) -> str:
        place = await scrolling.scroll(tab, down=direction == "down", ref=ref)
        return place.describe()

    return await use_page(ctx, scroll, scrolled=True)


@tool("browser", deferred=True, cap=_CAP, summary=lambda args: "go back")
async def browser_back(ctx: ToolContext) -> ToolOutput:
    """Go back to the page before in the browser's history."""
    return await use_page(ctx, navigation.go_back)


@tool(
    "browser",
    deferred=True,
    polls=True,
    cap=_CAP,
    summary=lambda args: f"wait for {args.get('text') or args.get('gone') or 'the page'}",
)
async def browser_wait(
    ctx: ToolContext,
    text: Annotated[str, "Until this can be seen."] = "",
    gone: Annotated[str, "Until this can be seen no more."] = "",
    seconds: Annotated[float, "At most so long, up to 60."] = 10.0,
) -> ToolOutput:
    """Wait until the page in the browser shows a text, or no more, or, without one, until it has loaded."""

    async def wait(tab: Tab) -> str:
        if text or gone:
            found = await waiting.wait_for_text(tab, text or gone, gone=not text, seconds=seconds)
            missed = f"not seen within {seconds:g} seconds" if text else f"still there after {seconds:g} seconds"
        else:
            found = await waiting.wait_for_load(tab, seconds)
            missed = f"still loading after {seconds:g} seconds"
        return "" if found or tab.dialog is not None else missed

    return await use_page(ctx, wait)


@tool(
    "browser",
    deferred=True,
    cap=_CAP,
    summary=lambda args: f"{args.get('action', 'list')} tabs",
)
async def browser_tabs(
    ctx: ToolContext,
    action: Literal["list", "open", "switch", "close"] = "list",
    tab: Annotated[int, "Its number, to switch to or close; else the current one."] = 0,
    url: Annotated[str, "What to open."] = "",
) -> ToolOutput:
    """List, open, switch and close tabs of the browser."""
    address = navigation.normalize_address(url) if url else ""
    async with open_pages(ctx, address) as pages:
        browser = pages.browser
        current = await browser.get_current_tab()
        try:
            if action == "open":
                current = await browser.open_tab()
                if address:
                    await navigation.navigate(current, address)
            elif action == "switch":
                current = await browser.switch_tab(tab)
            elif action == "close":
                await browser.close_tab(tab or current.number)
                current = await browser.get_current_tab()
            else:
                return make_output(await pages.describe_tabs(current))
            return make_output(await pages.describe_after(current))
        except BrowserError as error:
            return refuse(pages, current, error)


@tool("browser", deferred=True, cap=_CAP, summary=lambda args: f"{args['action']} the dialog")
async def browser_dialog(
    ctx: ToolContext,
    action: Literal["accept", "dismiss"],
    prompt_text: Annotated[str, "What to answer a prompt."] = "",
    dialog_id: Annotated[str, "Only if it is this one."] = "",
) -> ToolOutput:
    """Answer the dialog (alert, confirm, prompt, leaving a page) that is open in the browser."""

    async def answer(tab: Tab) -> None:
        if tab.dialog is not None and dialog_id and tab.dialog.id != dialog_id:
            raise BrowserError(f"The dialog {dialog_id} is gone; open is {tab.dialog.describe()}")
        before = note_moment(tab)
        await tab.answer_dialog(accept=action == "accept", text=prompt_text)
        await settle(tab, before)

    return await use_page(ctx, answer)
