"""Pictures: what a tab looks like, with what must not be seen covered, and the pictures on a page."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes.browser.page_facts import Box
from hermes.browser.protocol import Screenshot
from hermes.browser.snapshot import PageSnapshot
from hermes.browser.tab import VIEWPORT, Tab

_QUALITY = 60
_MAX_LABELS = 150
_MAX_IMAGES = 60
_MAX_ADDRESS = 200
_DRAW = """((boxes, labels, width) => {
  const host = document.createElement('div');
  host.setAttribute('style', 'all:initial;position:fixed;inset:0;width:100vw;height:100vh;margin:0;padding:0;border:0;'
    + 'background:transparent;pointer-events:none;z-index:2147483647;overflow:visible');
  host.popover = 'manual';
  const root = host.attachShadow({mode: 'closed'});
  const add = (style, text) => { const e = document.createElement('div'); e.setAttribute('style', style);
    e.textContent = text; root.append(e) };
  const place = b => `position:absolute;left:${b[0]}px;top:${b[1]}px;`;
  for (const b of boxes) add(place(b) + `width:${b[2] - b[0]}px;height:${b[3] - b[1]}px;background:#000`, '');
  for (const [name, b] of labels) {
    add(place(b) + `width:${b[2] - b[0]}px;height:${b[3] - b[1]}px;outline:1px solid #d00`, '');
    add(place([Math.min(Math.max(b[0], 0), width - 30), Math.max(b[1] - 13, 0)])
      + 'font:bold 11px/13px monospace;background:#d00;color:#fff;padding:0 2px', name) }
  document.documentElement.append(host);
  try { host.showPopover() } catch (e) {}
  window.__drawn = host;
  return true })(%s)"""
_ERASE = "window.__drawn && (window.__drawn.remove(), delete window.__drawn)"


class PageImage(Struct, frozen=True):
    """A picture on a page. `width` and `height` are as it is shown, in pixels."""

    source: str
    alt: str
    width: int
    height: int
    is_in_view: bool


async def take_screenshot(tab: Tab, snapshot: PageSnapshot, *, annotate: bool) -> str:
    """Return what is in view as a JPEG in base64; fields of passwords are black, and with `annotate` the elements
    with refs are framed and named. Raises BrowserError.
    """
    from hermes.core.encoding import to_json

    labels: Sequence[tuple[str, Box]] = [*snapshot.ref_boxes.items()][:_MAX_LABELS] if annotate else ()
    draws = bool(labels or snapshot.secret_boxes)
    if draws:
        drawn = ", ".join(to_json(one).decode() for one in (snapshot.secret_boxes, labels, VIEWPORT[0]))
        await tab.session.evaluate(_DRAW % drawn, tab.main_frame)
    try:
        params: Mapping[str, object] = {"format": "jpeg", "quality": _QUALITY, "optimizeForSpeed": False}
        return (await tab.session.call_for(Screenshot, "Page.captureScreenshot", params)).data
    finally:
        if draws:
            world = await tab.session.open_world(tab.main_frame)
            tab.session.post("Runtime.evaluate", {"expression": _ERASE, "contextId": world})


def list_images(snapshot: PageSnapshot) -> list[PageImage]:
    """Return the pictures that a person can see on a page, those in view first."""
    found: list[PageImage] = []
    for document in snapshot.documents:
        sources = document.read_sources()
        for node_id, facts in document.iter_tags("img"):
            if facts.box is None or facts.is_hidden:
                continue
            attributes = document.list_attributes(facts)
            source = sources.get(node_id) or attributes.get("src", "")
            width, height = int(facts.box[2] - facts.box[0]), int(facts.box[3] - facts.box[1])
            alt = " ".join(attributes.get("alt", "").split())[:200]
            found.append(PageImage(_shorten(source), alt, width, height, facts.is_in_view))
    return sorted(found, key=lambda image: not image.is_in_view)[:_MAX_IMAGES]


def _shorten(source: str) -> str:
    if source.startswith("data:"):
        return f"{source[:30]}… ({len(source)} characters)"
    return source if len(source) <= _MAX_ADDRESS else f"{source[:_MAX_ADDRESS]}…"
