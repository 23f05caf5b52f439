"""Takes snapshots of a tab: the accessibility trees and boxes of all its documents, and the outline of them."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from hermes.browser.cdp import CdpError
from hermes.browser.outline import DocumentTree, Line, NodeId, OutlineWriter
from hermes.browser.page_facts import COMPUTED_STYLES, Box, DocumentFacts, read_documents
from hermes.browser.protocol import AxTree, BoxModelResult, DomSnapshot, FrameOwner
from hermes.browser.refs import RefTarget
from hermes.browser.tab import VIEWPORT, Tab
from hermes.browser.target_session import TargetSession
from hermes.core.errors import BrowserError, BrowserGoneError

SNAPSHOT_SECONDS = 10.0
MAX_ELEMENTS = 30_000
"""The elements of a page up to which it is told: a browser takes seconds for more."""
_MEASURE = "[document.title, document.getElementsByTagName('*').length]"
_MAX_DOCUMENTS = 40


class PageTooLargeError(BrowserError):
    """A page has more elements than can be told."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"The page has {count} elements, too many to be shown.",
            "browser_console reads parts of it by an expression, web_extract its text.",
        )


class PageSnapshot(Struct, kw_only=True):
    """A tab as it was at one moment."""

    document_id: str
    lines: list[Line]
    documents: list[DocumentFacts]
    secrets: tuple[str, ...]
    """What fields of passwords hold: it is taken out of every text."""
    secret_boxes: list[Box]
    """Where such fields are, in the viewport."""
    ref_boxes: dict[str, Box]
    """Where the elements with refs are, in the viewport; those in view only."""

    def hide_secrets(self, text: str) -> str:
        """Return a text without what fields of passwords hold."""
        for secret in self.secrets:
            text = text.replace(secret, "•••")
        return text


class _Part(Struct):
    """What one session has said."""

    session: TargetSession
    facts: list[DocumentFacts]
    trees: list[AxTree]


async def take_snapshot(tab: Tab) -> PageSnapshot:
    """Return the tab as it is now.

    Raises BrowserError when the page does not answer, PageTooLargeError, CdpError when its document goes meanwhile.
    """
    view: Box = (0.0, 0.0, float(VIEWPORT[0]), float(VIEWPORT[1]))
    state = await tab.session.evaluate(_MEASURE, tab.main_frame, seconds=SNAPSHOT_SECONDS)
    if isinstance(state, list) and len(state) == 2:
        tab.title = str(state[0])
        if isinstance(state[1], int) and state[1] > MAX_ELEMENTS:
            raise PageTooLargeError(state[1])
    trees = _join_trees(tab, await _read_session(tab.session, (0.0, 0.0), view))
    held: dict[NodeId, DocumentTree] = {}
    waiting = [*tab.sessions][1:]
    for place in trees:  # grows by the documents of frames, which hold others
        for session in [*waiting]:
            if place.session_id != session.session_id and (owner := await _find_owner(tab, place, session)):
                waiting.remove(session)
                trees += await _read_frame(tab, session, (place, owner), held)
    _find_local_holders(trees, held)
    return _write_snapshot(tab, trees, held)


async def _find_owner(tab: Tab, place: DocumentTree, session: TargetSession) -> int:
    """Return the element of a document that holds the frame of a session; 0 for none."""
    holder = tab.find_session(place.session_id)
    if holder is None:
        return 0
    try:
        found = await holder.call_for(FrameOwner, "DOM.getFrameOwner", {"frameId": session.target.target_id})
    except CdpError:
        return 0
    return found.backend_node_id if found.backend_node_id in place.facts.nodes else 0


async def _read_frame(
    tab: Tab, session: TargetSession, place: tuple[DocumentTree, int], held: dict[NodeId, DocumentTree]
) -> list[DocumentTree]:
    """Return the documents of a frame that has a process of its own; none where a person does not see it."""
    holder, owner = place
    facts = holder.facts.nodes[owner]
    if facts.box is None or facts.is_hidden:
        return []
    view = _clip(facts.box, (0.0, 0.0, float(VIEWPORT[0]), float(VIEWPORT[1])))
    try:
        joined = _join_trees(tab, await _read_session(session, facts.box[:2], view))
    except BrowserGoneError:
        raise
    except BrowserError:
        return []  # the frame has gone, or does not answer: the rest of the page is shown
    if joined:
        held[(holder.session_id, owner)] = joined[0]
    return joined


async def _read_session(session: TargetSession, origin: tuple[float, float], view: Box) -> _Part:
    params = {"computedStyles": COMPUTED_STYLES}
    tree = asyncio.ensure_future(_read_tree(session, session.target.target_id))
    try:
        snapshot = await session.call_for(DomSnapshot, "DOMSnapshot.captureSnapshot", params, seconds=SNAPSHOT_SECONDS)
        facts = read_documents(snapshot, origin, view)[:_MAX_DOCUMENTS]
        others = await asyncio.gather(*(_read_tree(session, one.frame_id) for one in facts[1:]))
        return _Part(session, facts, [await tree, *others])
    finally:
        tree.cancel()


async def _read_tree(session: TargetSession, frame_id: str) -> AxTree:
    params = {"frameId": frame_id}
    try:
        return await session.call_for(AxTree, "Accessibility.getFullAXTree", params, seconds=SNAPSHOT_SECONDS)
    except CdpError:
        return AxTree([])  # the frame has gone meanwhile


def _join_trees(tab: Tab, part: _Part) -> list[DocumentTree]:
    """Return the documents of a session, the uppermost first."""
    joined: list[DocumentTree] = []
    for facts, tree in zip(part.facts, part.trees, strict=True):
        if not tree.nodes:
            continue
        document = tab.documents.get(facts.frame_id, facts.frame_id)
        nodes = {node.node_id: node for node in tree.nodes}
        joined.append(DocumentTree(part.session.session_id, document, nodes, tree.nodes[0], facts))
    return joined


def _find_local_holders(trees: Sequence[DocumentTree], held: dict[NodeId, DocumentTree]) -> None:
    """Find the elements that hold the documents of frames in the same process."""
    by_frame = {(tree.session_id, tree.facts.frame_id): tree for tree in trees}
    for tree in trees:
        for owner, frame_id in tree.facts.list_held_frames():
            if (found := by_frame.get((tree.session_id, frame_id))) is not None:
                held[(tree.session_id, owner)] = found


async def find_frame_origin(tab: Tab, session: TargetSession) -> tuple[float, float]:
    """Return where the page of a session begins in the tab's viewport. Raises BrowserError when it is gone."""
    if session is tab.session:
        return (0.0, 0.0)
    for holder in tab.sessions:
        if holder is session:
            continue
        try:
            owner = await holder.call_for(FrameOwner, "DOM.getFrameOwner", {"frameId": session.target.target_id})
            params = {"backendNodeId": owner.backend_node_id}
            box = (await holder.call_for(BoxModelResult, "DOM.getBoxModel", params)).model.content
        except CdpError:
            continue
        above = await find_frame_origin(tab, holder)
        return (above[0] + box[0], above[1] + box[1])
    raise BrowserError("The frame is gone. Take a new browser_snapshot.")


def _clip(box: Box, view: Box) -> Box:
    return (max(box[0], view[0]), max(box[1], view[1]), min(box[2], view[2]), min(box[3], view[3]))


def _write_snapshot(tab: Tab, trees: list[DocumentTree], held: dict[NodeId, DocumentTree]) -> PageSnapshot:
    refs: dict[str, tuple[DocumentTree, int]] = {}

    def assign_ref(tree: DocumentTree, node_id: int, label: str) -> str:
        target = RefTarget(tab.number, tree.session_id, node_id, tree.facts.frame_id, tree.document_id, label)
        ref = tab.refs.assign_ref(target)
        refs[ref] = (tree, node_id)
        return ref

    writer = OutlineWriter(trees, held, assign_ref, tab.secret_nodes)
    lines = writer.write()
    secrets, boxes = _collect_secrets(tab, trees)
    snapshot = PageSnapshot(
        document_id=tab.activity.document_id,
        lines=lines,
        documents=[tree.facts for tree in trees],
        secrets=secrets,
        secret_boxes=boxes,
        ref_boxes={
            ref: facts.box
            for ref, (tree, node_id) in refs.items()
            if (facts := tree.facts.nodes[node_id]).box is not None and facts.is_in_view
        },
    )
    if secrets:
        for line in lines:
            line.text = snapshot.hide_secrets(line.text)
    return snapshot


def _collect_secrets(tab: Tab, trees: Sequence[DocumentTree]) -> tuple[tuple[str, ...], list[Box]]:
    """Return what secret fields hold, the longest first, and where the fields are."""
    found: set[str] = set()
    boxes: list[Box] = []
    by_session: dict[str, set[int]] = {}
    for session_id, node_id in tab.secret_nodes:
        by_session.setdefault(session_id, set()).add(node_id)
    if not by_session:
        return (), []
    for tree in trees:
        secret = by_session.get(tree.session_id, set()) & tree.facts.nodes.keys()
        if not secret:
            continue
        values = tree.facts.read_input_values()
        for node_id in secret:
            value = values.get(node_id, "")
            if len(value) >= 4:
                found.add(value)
            box = tree.facts.nodes[node_id].box
            if box is not None:
                boxes.append(box)
    return tuple(sorted(found, key=len, reverse=True)), boxes
