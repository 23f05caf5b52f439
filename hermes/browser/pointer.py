"""The mouse: where an element can be hit, what covers it, clicks, hovering and dragging."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from hermes.browser.cdp import CdpError
from hermes.browser.protocol import AxTree, EvaluateResult, HitNode, LayoutMetrics, Quads, RemoteObject
from hermes.browser.refs import RefTarget
from hermes.browser.roles import CONTAINER_WORDS, INTERACTIVE_WORDS
from hermes.browser.settling import act
from hermes.browser.snapshot import find_frame_origin
from hermes.browser.tab import INPUT_SECONDS, VIEWPORT, Tab
from hermes.browser.target_session import TargetSession
from hermes.core.errors import BrowserError
from hermes.util.text import to_one_line

_TRIES = 5
_PAUSE = 0.12
"""Between two looks at an element that is covered or has no place, since things move."""
_DRAG_SECONDS = 0.3
_DRAG_STEPS = 5
_STATE = """function() {
  if (!this.isConnected) return 'gone';
  if (this.disabled || this.closest?.('[aria-disabled=true]') || this.matches?.(':disabled')) return 'disabled';
  if (this.tagName === 'SELECT' && !this.multiple && this.size < 2) return 'select';
  return 'ready' }"""
_STAND_IN = """function() {
  const seen = e => { const r = e.getBoundingClientRect(); return r.width > 2 && r.height > 2 };
  if (this.tagName !== 'INPUT' || seen(this)) return null;
  return [...(this.labels || [])].find(seen) || null }"""
_HOLDS = """function(hit) {
  for (let n = hit; n; n = n.parentNode || n.host) if (n === this) return true;
  const label = hit.closest?.('label') || hit.parentElement?.closest('label');
  return !!label && (label === this || label.control === this) }"""
_FIND_COVER = """function(hit) {
  let top = hit;
  for (let n = hit; n; n = n.parentNode || n.host) { if (n.nodeType !== 1) continue;
    let inside = false;
    for (let m = this; m; m = m.parentNode || m.host) if (m === n) { inside = true; break }
    if (inside) break;
    top = n }
  return top }"""
_DESCRIBE = """function() { const e = this.nodeType === 1 ? this : this.parentElement; if (!e) return '';
  return e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') + '|' + (e.innerText || '').slice(0, 200) }"""
_CENTRE = "function() { this.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'}) }"


class Point(Struct, frozen=True):
    """A point of a tab's viewport, in pixels."""

    x: float
    y: float


class _DescribedNode(Struct, rename="camel"):
    backend_node_id: int


class _Description(Struct):
    node: _DescribedNode


class CoveredError(BrowserError):
    """Another element is above one that was to be hit."""


async def click(tab: Tab, ref: str, *, count: int = 1) -> None:
    """Click an element, and wait for what follows. Raises BrowserError with what is in the way."""
    tab.chooser = None
    await act(tab, _click(tab, ref, count))


async def _click(tab: Tab, ref: str, count: int) -> None:
    await send_click(tab, await find_point(tab, ref), count)


async def hover(tab: Tab, ref: str) -> None:
    """Move the mouse over an element, and wait for what follows."""
    await act(tab, _hover(tab, ref))


async def _hover(tab: Tab, ref: str) -> None:
    await _send_mouse(tab, "mouseMoved", await find_point(tab, ref, for_hover=True))


async def drag(tab: Tab, ref: str, to_ref: str) -> None:
    """Drag an element onto another, by HTML5's drag and drop or by the mouse alone, as the page has it."""
    await act(tab, _drag(tab, ref, to_ref))


async def find_point(tab: Tab, ref: str, *, for_hover: bool = False) -> Point:
    """Return a point at which an element is hit, in view. Raises BrowserError, CoveredError."""
    target, session = tab.find_target(ref)
    state = await read_state(session, target, ref, _STATE)
    if not for_hover:
        _check_clickable(ref, target, state)
    node_id = await _find_stand_in(session, target)
    origin = await find_frame_origin(tab, session)
    hit: HitNode | None = None
    for attempt in range(_TRIES):
        if attempt:
            await asyncio.sleep(_PAUSE)
        if attempt == 1:
            await session.call_on_node(node_id, target.frame_id, _CENTRE)
        points = await _list_points(session, node_id)
        scrolled = await _find_scroll(session) if points else Point(0.0, 0.0)
        for point in points:
            hit = await _find_hit(session, Point(point.x + scrolled.x, point.y + scrolled.y))
            if hit is not None and await _holds(session, target, node_id, hit):
                return Point(point.x + origin[0], point.y + origin[1])
        if attempt and not points:
            break
    if hit is None:
        raise BrowserError(f"{ref} {target.label} has no place on the page where it could be seen.")
    cover = await _describe_cover(tab, session, target, node_id, hit)
    raise CoveredError(f"{ref} {target.label} is covered by {cover}. Deal with that first.")


def _check_clickable(ref: str, target: RefTarget, state: object) -> None:
    if state == "disabled":
        raise BrowserError(f"{ref} {target.label} is disabled.")
    if state == "select":
        raise BrowserError(f"{ref} {target.label} is a list to choose from: use browser_select.")


async def read_state(session: TargetSession, target: RefTarget, ref: str, function: str) -> object:
    """Return what a function says of an element. Raises BrowserError for one that is no longer on the page."""
    try:
        state = await session.call_on_node(target.node_id, target.frame_id, function)
    except CdpError as error:
        raise BrowserError(f"{ref} is stale: {target.label} is gone. Take a new browser_snapshot.") from error
    if state == "gone":
        raise BrowserError(f"{ref} is stale: {target.label} is gone from the page.")
    return state


async def _call_for_node(
    session: TargetSession, target: RefTarget, node_id: int, function: str, *given: RemoteObject
) -> int:
    """Return the number of the node that a function gives for another; 0 for none."""
    found = await session.resolve_node(node_id, target.frame_id)
    params = {
        "functionDeclaration": function,
        "objectId": found.object_id,
        "arguments": [{"objectId": one.object_id} for one in given],
    }
    result = (await session.call_for(EvaluateResult, "Runtime.callFunctionOn", params)).result
    if not result.object_id:
        return 0
    described = await session.call_for(_Description, "DOM.describeNode", {"objectId": result.object_id})
    return described.node.backend_node_id


async def _find_stand_in(session: TargetSession, target: RefTarget) -> int:
    """Return the node to hit: of a field that is not drawn, its label."""
    if not target.label.startswith(("checkbox", "radio", "switch", "file input")):
        return target.node_id
    return await _call_for_node(session, target, target.node_id, _STAND_IN) or target.node_id


async def _list_points(session: TargetSession, node_id: int) -> list[Point]:
    """Return points of a node that are in the view of its frame, its centre first; none for what has no box."""
    try:
        await session.call("DOM.scrollIntoViewIfNeeded", {"backendNodeId": node_id})
        found = (await session.call_for(Quads, "DOM.getContentQuads", {"backendNodeId": node_id})).quads
    except CdpError:
        return []
    quads = [quad for quad in found if _measure(quad) > 1][:3]
    return [point for share in (0.5, 0.2, 0.8) for quad in quads for point in _points_of(quad, share)]


def _points_of(quad: Sequence[float], share: float) -> list[Point]:
    left, top, right, bottom = min(quad[::2]), min(quad[1::2]), max(quad[::2]), max(quad[1::2])
    left, top = max(left, 0.0), max(top, 0.0)
    right, bottom = min(right, VIEWPORT[0] - 1.0), min(bottom, VIEWPORT[1] - 1.0)
    if left >= right or top >= bottom:
        return []
    return [Point(left + (right - left) * share, top + (bottom - top) * 0.5)]


def _measure(quad: Sequence[float]) -> float:
    return (max(quad[::2]) - min(quad[::2])) * (max(quad[1::2]) - min(quad[1::2])) if len(quad) == 8 else 0.0


async def _find_scroll(session: TargetSession) -> Point:
    """Return how far the page of a session is scrolled."""
    seen = (await session.call_for(LayoutMetrics, "Page.getLayoutMetrics")).css_layout_viewport
    return Point(seen.page_x, seen.page_y)


async def _find_hit(session: TargetSession, point: Point) -> HitNode | None:
    """Return the uppermost node at a point of a page, which is counted from its beginning and not from what is seen."""
    params = {"x": int(point.x), "y": int(point.y), "ignorePointerEventsNone": True}
    try:
        return await session.call_for(HitNode, "DOM.getNodeForLocation", params)
    except CdpError:
        return None


async def _holds(session: TargetSession, target: RefTarget, node_id: int, hit: HitNode) -> bool:
    if hit.backend_node_id == node_id:
        return True
    try:
        above = await session.resolve_node(hit.backend_node_id, target.frame_id)
        return await session.call_on_node(node_id, target.frame_id, _HOLDS, above) is True
    except BrowserError:
        return False  # it is of another document


async def _describe_cover(tab: Tab, session: TargetSession, target: RefTarget, node_id: int, hit: HitNode) -> str:
    """Return the role, name and ref of what is above an element."""
    cover = hit.backend_node_id
    frame_id = hit.frame_id or target.frame_id
    try:
        above = await session.resolve_node(hit.backend_node_id, target.frame_id)
        cover = await _call_for_node(session, target, node_id, _FIND_COVER, above) or cover
        frame_id = target.frame_id
    except CdpError:
        pass  # it is of another document
    label = await _describe_node(session, cover, frame_id)
    document = tab.documents.get(frame_id, frame_id)
    return f"{tab.refs.assign_ref(RefTarget(tab.number, session.session_id, cover, frame_id, document, label))} {label}"


async def _describe_node(session: TargetSession, node_id: int, frame_id: str) -> str:
    words = {**CONTAINER_WORDS, **INTERACTIVE_WORDS}
    params = {"backendNodeId": node_id, "fetchRelatives": False}
    try:
        nodes = (await session.call_for(AxTree, "Accessibility.getPartialAXTree", params)).nodes
        said = str(await session.call_on_node(node_id, frame_id, _DESCRIBE))
    except BrowserError:
        return "another element"
    tag, _, text = said.partition("|")
    node = next((one for one in nodes if not one.ignored), None)
    role = words.get(node.role_name, "") if node is not None else ""
    name = (node.label if node is not None else "") or to_one_line(text, 80)
    return f'{role or tag} "{to_one_line(name, 80)}"' if name else role or tag


async def send_click(tab: Tab, point: Point, count: int = 1) -> None:
    """Click at a point; it ends when the page has taken the click, which it does not while a dialog is open."""
    sent = [_send_mouse(tab, "mouseMoved", point)]
    for number in range(1, count + 1):
        sent += [_send_mouse(tab, "mousePressed", point, count=number)]
        sent += [_send_mouse(tab, "mouseReleased", point, count=number)]
    await asyncio.gather(*sent)


async def _send_mouse(tab: Tab, kind: str, point: Point, *, count: int = 0, held: int = 0) -> None:
    params: dict[str, object] = {"type": kind, "x": point.x, "y": point.y, "buttons": held}
    if count:
        params |= {"button": "left", "clickCount": count, "buttons": 1 if kind == "mousePressed" else 0}
    elif held:
        params["button"] = "left"
    await tab.session.call("Input.dispatchMouseEvent", params, seconds=INPUT_SECONDS)


async def _drag(tab: Tab, ref: str, to_ref: str) -> None:
    begin = await find_point(tab, ref)
    await tab.session.call("Input.setInterceptDrags", {"enabled": True})
    tab.drag = None
    try:
        await _send_mouse(tab, "mouseMoved", begin)
        await _send_mouse(tab, "mousePressed", begin, count=1)
        for step in (3, 8):
            await _send_mouse(tab, "mouseMoved", Point(begin.x + step, begin.y + step), held=1)
        await tab.activity.wait_until(lambda: tab.drag is not None, _DRAG_SECONDS)
        end = await _find_drop_point(tab, to_ref)
        if tab.drag is not None:
            await _drop_data(tab, tab.drag.data, end)
        else:
            for step in range(1, _DRAG_STEPS + 1):
                share = step / _DRAG_STEPS
                between = Point(begin.x + (end.x - begin.x) * share, begin.y + (end.y - begin.y) * share)
                await _send_mouse(tab, "mouseMoved", between, held=1)
        await _send_mouse(tab, "mouseReleased", end, count=1)
    finally:
        tab.session.post("Input.setInterceptDrags", {"enabled": False})


async def _find_drop_point(tab: Tab, ref: str) -> Point:
    """Return the centre of an element, whatever is above it: what is dragged may be."""
    target, session = tab.find_target(ref)
    await read_state(session, target, ref, "function() { return this.isConnected ? 'ready' : 'gone' }")
    points = await _list_points(session, target.node_id)
    if not points:
        raise BrowserError(f"{ref} {target.label} has no place on the page where it could be seen.")
    origin = await find_frame_origin(tab, session)
    return Point(points[0].x + origin[0], points[0].y + origin[1])


async def _drop_data(tab: Tab, data: dict[str, object], point: Point) -> None:
    for kind in ("dragEnter", "dragOver", "dragOver", "drop"):
        params = {"type": kind, "x": point.x, "y": point.y, "data": data}
        await tab.session.call("Input.dispatchDragEvent", params)
