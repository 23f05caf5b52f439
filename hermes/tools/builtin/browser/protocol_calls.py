"""The tool that calls single methods of the browser's own protocol, those that the person has named."""

from typing import Annotated, Any

from hermes.browser.tab import Tab
from hermes.core.encoding import to_json
from hermes.core.errors import BrowserError, ToolError
from hermes.tools.builtin.browser.page_results import find_provenance, open_pages, refuse
from hermes.tools.session import ToolContext
from hermes.tools.tool import ToolOutput, tool

MAX_SECONDS = 60.0
_MAX_CHARACTERS = 12_000
_NEVER = (
    "Browser.",
    "Fetch.",
    "IO.",
    "Network.loadNetworkResource",
    "Page.setDownloadBehavior",
    "SystemInfo.",
    "Target.",
)
"""What the watch over requests, the box and the tabs stand on: no setting opens that."""
_FILES = ("DOM.setFileInputFiles", "Page.setInterceptFileChooserDialog")
"""Methods by which files go to a page: `browser_upload` judges their paths."""


def is_allowed(method: str, allowed: tuple[str, ...]) -> bool:
    """Return whether a method of the protocol may be called, by the names in the settings."""
    return method in allowed and not method.startswith((*_NEVER, *_FILES))


@tool(
    "browser-cdp",
    deferred=True,
    brief="call the browser's own protocol",
    cap=_MAX_CHARACTERS,
    summary=lambda args: f"call {args['method']} of the browser",
    shown=lambda args: to_json(args.get("params") or {}).decode(),
)
async def browser_cdp(
    ctx: ToolContext,
    method: Annotated[str, "Such as Page.printToPDF; one that the person allows."],
    params: Annotated[dict[str, Any] | None, "Its parameters."] = None,
    target_id: Annotated[str, "Another tab, by its target."] = "",
    frame_id: Annotated[str, "A frame of another process."] = "",
    timeout: Annotated[float, "Seconds, up to 60."] = 30.0,  # noqa: ASYNC109 - the model's own limit
) -> ToolOutput:
    """Call a method of the browser's DevTools protocol on the page, where no other tool does it."""
    async with open_pages(ctx) as pages:
        if ctx.browser is None or not is_allowed(method, ctx.browser.allowed_methods):
            raise ToolError(f"{method[:100]} is not among `browser.cdp_methods`, or never allowed.")
        tabs = pages.browser.tabs.values()
        tab = next((one for one in tabs if one.main_frame == target_id), None) if target_id else None
        tab = tab or await pages.browser.get_current_tab()
        try:
            return await _call_method(tab, method, params or {}, frame_id, min(max(timeout, 1.0), MAX_SECONDS))
        except BrowserError as error:
            return refuse(pages, tab, error)


async def _call_method(tab: Tab, method: str, params: dict[str, object], frame_id: str, seconds: float) -> ToolOutput:
    tab.check_usable()
    session = tab.frames.get(frame_id, tab.session)
    answer = await tab.run(session.call(method, params, seconds=seconds))
    text = bytes(answer).decode("utf-8", "replace") if answer is not None else "A dialog has opened."
    return ToolOutput(text=text[:_MAX_CHARACTERS], provenance=find_provenance(tab.list_addresses()))
