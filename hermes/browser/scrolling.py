"""Scrolling: the page, or the part of it that scrolls by itself."""

import asyncio

from msgspec import Struct

from hermes.browser.settling import act
from hermes.browser.snapshot import take_snapshot
from hermes.browser.tab import Tab
from hermes.core.errors import BrowserError

_SHARE = 0.85
"""The part of what is seen by which one step scrolls."""
_MAX_SCREENS = 40
_TRIES_AT_END = 3
_LOADING_SECONDS = 0.4
"""A list that goes on by itself may need so long until it does."""
_SCROLL_PAGE = """((sign, share) => {
  const scrolls = e => { const s = getComputedStyle(e);
    return e.scrollHeight > e.clientHeight + 4 && /(auto|scroll|overlay)/.test(s.overflowY) && e.clientHeight > 40 };
  const root = document.scrollingElement || document.documentElement;
  let box = null;
  const middle = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
  for (let e = middle; e; e = e.parentElement || e.getRootNode().host) {
    if (e === root || e === document.body) break;
    if (scrolls(e)) { box = e; break } }
  const moves = e => { const old = e.scrollTop, view = e === root ? innerHeight : e.clientHeight;
    e.scrollBy({top: sign * share * view, behavior: 'instant'});
    return [e.scrollTop !== old, e.scrollTop, e.scrollHeight, view] };
  let said = box ? moves(box) : [false];
  if (!said[0]) said = moves(root);
  return said })(%d, %s)"""
_SCROLL_PART = """function(sign, share) {
  let e = this;
  const scrolls = e => e.scrollHeight > e.clientHeight + 4
    && /(auto|scroll|overlay|hidden)/.test(getComputedStyle(e).overflowY);
  while (e && !scrolls(e)) e = e.parentElement;
  e = e || document.scrollingElement;
  const old = e.scrollTop;
  e.scrollBy({top: sign * share * e.clientHeight, behavior: 'instant'});
  return [e.scrollTop !== old, e.scrollTop, e.scrollHeight, e.clientHeight] }"""


class ScrollPlace(Struct):
    """Where something is scrolled to. `moved`: whether it was not there before."""

    moved: bool
    top: float = 0.0
    height: float = 0.0
    view: float = 0.0

    def describe(self) -> str:
        """Return it in a few words."""
        if self.view <= 0 or self.height <= self.view + 4:
            return "all of it is in view"
        share = round(100 * min(1.0, (self.top + self.view) / self.height))
        return f"seen to {share}%" if self.moved else f"it goes no further: seen to {share}%"


async def scroll(tab: Tab, *, down: bool, ref: str = "") -> ScrollPlace:
    """Scroll by most of what is seen, of the page or of the part that an element is in, and wait for what follows."""
    said = await act(tab, _scroll(tab, 1 if down else -1, ref))
    if not isinstance(said, list) or len(said) != 4:
        return ScrollPlace(moved=False)
    moved, top, height, view = said
    return ScrollPlace(bool(moved), float(top), float(height), float(view))


async def scroll_until(tab: Tab, words: str, *, down: bool, ref: str = "") -> ScrollPlace:
    """Scroll until a line of the page holds these words, as far as it goes, and return where that is."""
    wanted = " ".join(words.casefold().split())
    place = ScrollPlace(moved=False)
    still = 0
    for _ in range(_MAX_SCREENS):
        lines = (await take_snapshot(tab)).lines
        if any(wanted in line.text.casefold() for line in lines):
            break
        place = await scroll(tab, down=down, ref=ref)
        if tab.dialog is not None:
            break
        still = 0 if place.moved else still + 1
        if still == _TRIES_AT_END:
            break
        if still:
            await asyncio.sleep(_LOADING_SECONDS)
    return place


async def _scroll(tab: Tab, sign: int, ref: str) -> object:
    if not ref:
        return await tab.session.evaluate(_SCROLL_PAGE % (sign, _SHARE), tab.main_frame)
    target, session = tab.find_target(ref)
    try:
        return await session.call_on_node(target.node_id, target.frame_id, _SCROLL_PART, sign, _SHARE)
    except BrowserError as error:
        raise BrowserError(f"{ref} is stale: {target.label} is gone. Take a new browser_snapshot.") from error
