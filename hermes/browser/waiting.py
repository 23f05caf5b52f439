"""Waits for what a page will show, or will show no more."""

import asyncio

from hermes.browser.snapshot import take_snapshot
from hermes.browser.tab import Tab
from hermes.core.errors import BrowserError, BrowserGoneError

MAX_SECONDS = 60.0
_PAUSE = 0.2


async def wait_for_text(tab: Tab, text: str, *, gone: bool, seconds: float) -> bool:
    """Wait until a person can see a text on the page, or with `gone` no more, and return whether that came true.

    It ends early when a dialog opens. Raises BrowserError when the page crashes.
    """
    tab.check_usable()
    try:
        async with asyncio.timeout(min(max(seconds, 0.1), MAX_SECONDS)):
            return bool(await tab.run(_look(tab, text.casefold().split(), gone=gone)))
    except TimeoutError:
        return False


async def _look(tab: Tab, words: list[str], *, gone: bool) -> bool:
    wanted = " ".join(words)
    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        try:
            snapshot = await take_snapshot(tab)
        except BrowserGoneError:
            raise
        except BrowserError:
            found = gone  # the document is being replaced
        else:
            lines = "\n".join(" ".join(line.text.casefold().split()) for line in snapshot.lines)
            found = wanted in f"{tab.title.casefold()}\n{tab.activity.url.casefold()}\n{lines}"
        if found is not gone:
            return True
        await asyncio.sleep(max(_PAUSE, 3 * (loop.time() - begun)))


async def wait_for_load(tab: Tab, seconds: float) -> bool:
    """Wait until the page and what belongs to it are loaded, and return whether they are."""
    tab.check_usable()
    activity = tab.activity
    limit = min(max(seconds, 0.1), MAX_SECONDS)
    is_loaded = activity.wait_until(
        lambda: activity.is_loaded and not activity.is_navigating and not activity.has_requests, limit
    )
    return bool(await tab.run(is_loaded))
