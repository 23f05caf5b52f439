"""What is known of a document's nodes from their boxes: whether a person sees them, and whether they can be clicked.

All comes from one `DOMSnapshot.captureSnapshot` a session, which holds the documents of all frames in its process,
whatever their shadow roots.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from hermes.browser.protocol import DomSnapshot

COMPUTED_STYLES = (
    "display",
    "cursor",
    "opacity",
    "overflow-x",
    "overflow-y",
    "position",
    "color",
    "clip-path",
    "background-clip",
)
_MAX_HIDDEN_SIDE = 2.0
"""The pixels of a side under which nobody reads a text, and by which texts for screen readers only are cut off."""
_SECRET_WORDS = ("passw", "passphrase", "pwd", "passcode", "secret", "cvv", "cvc", "csc", "otp", "one-time", "token")
_SECRET_COMPLETIONS = ("current-password", "new-password", "one-time-code", "cc-number", "cc-csc", "cc-exp")
_TEXT_TYPES = frozenset({"", "text", "password", "tel", "number", "search", "email", "url"})

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels."""
_EVERYTHING: Box = (-1e9, -1e9, 1e9, 1e9)


class NodeFacts(Struct):
    """What is known of one node."""

    box: Box | None
    """Where it is in the tab's viewport; None for a node without a box."""
    is_hidden: bool
    """Whether a person cannot see it, though it has a box."""
    is_in_view: bool
    is_block: bool
    """Whether it begins a new line."""
    has_pointer: bool
    """Whether the pointer becomes a hand over it, and not over what holds it."""
    is_clickable: bool
    """Whether it, or the browser for it, listens to clicks."""
    tag: str
    attributes: Sequence[int]
    has_grip: bool = False
    """Whether the pointer becomes a hand that grips over it, and not over what holds it."""


_NEVER_CLIPS = ("", "html", "body")
"""What they are said to cut off is cut off by the viewport."""


class DocumentFacts:
    """The nodes of one document by their numbers. `origin` is where it begins in the tab's viewport."""

    def __init__(self, snapshot: DomSnapshot, number: int, origin: tuple[float, float], clip: Box) -> None:
        table, strings = snapshot.documents[number], snapshot.strings
        self.frame_id = strings[table.frame_id]
        self._documents = snapshot.documents
        self.nodes: dict[int, NodeFacts] = {}
        self.children: list[tuple[int, int]] = []
        """The documents of frames in it: the number of the node that holds one, and of the document."""
        self.parents: dict[int, int] = {}
        """The node that holds a node, as far as a box or attribute of it counts."""
        self._strings = strings
        self._table = table
        self._read_nodes(origin, clip)

    def list_attributes(self, facts: NodeFacts) -> dict[str, str]:
        """Return the attributes of a node."""
        given = facts.attributes
        strings = self._strings
        return {strings[given[i]]: strings[given[i + 1]] if given[i + 1] >= 0 else "" for i in range(0, len(given), 2)}

    def iter_tags(self, tag: str) -> Iterator[tuple[int, NodeFacts]]:
        """Yield the elements of a kind that have a box, or none, with their numbers."""
        for node_id, facts in self.nodes.items():
            if facts.tag == tag:
                yield node_id, facts

    def list_held_frames(self) -> list[tuple[int, str]]:
        """Return the elements that hold frames of the same process, each with its frame's id."""
        return [(owner, self._strings[self._documents[child].frame_id]) for owner, child in self.children]

    def read_sources(self) -> Mapping[int, str]:
        """Return the addresses of pictures, by node."""
        rare, ids = self._table.nodes.current_source_url, self._table.nodes.backend_node_id
        return {ids[index]: self._strings[value] for index, value in zip(rare.index, rare.value, strict=True)}

    def read_input_values(self) -> Mapping[int, str]:
        """Return what fields hold, by node, those of passwords too."""
        nodes = self._table.nodes
        found: dict[int, str] = {}
        for rare in (nodes.input_value, nodes.text_value):
            for index, value in zip(rare.index, rare.value, strict=True):
                if value >= 0 and self._strings[value]:
                    found[nodes.backend_node_id[index]] = self._strings[value]
        return found

    def _read_nodes(self, origin: tuple[float, float], clip: Box) -> None:
        table, strings = self._table, self._strings
        nodes, layout = table.nodes, table.layout
        boxes = dict(zip(layout.node_index, range(len(layout.node_index)), strict=True))
        clickable = frozenset(nodes.is_clickable.index)
        content = dict(zip(nodes.content_document_index.index, nodes.content_document_index.value, strict=True))
        read_style = _StyleReader(strings)
        shift = (origin[0] - table.scroll_offset_x, origin[1] - table.scroll_offset_y)
        inherited: list[_Inherited] = []
        for index, parent in enumerate(nodes.parent_index):
            above = inherited[parent] if parent >= 0 else _Inherited(False, False, False, clip)
            place = boxes.get(index)
            tag = strings[nodes.node_name[index]].lower() if nodes.node_type[index] == 1 else ""
            node_id = nodes.backend_node_id[index]
            if place is None:
                inherited.append(above)
                facts = NodeFacts(None, above.is_hidden, False, False, False, index in clickable, tag, ())
            else:
                style = read_style(layout.styles[place])
                left, top, width, height = layout.bounds[place]
                left, top = left + shift[0], top + shift[1]
                box = (left, top, left + width, top + height)
                own, is_hidden, is_in_view = _judge_box(
                    box, style, above, shift, clips=style.clips and tag not in _NEVER_CLIPS
                )
                inherited.append(own)
                facts = NodeFacts(
                    box,
                    is_hidden,
                    is_in_view,
                    bool(tag) and style.is_block,
                    bool(tag) and style.has_pointer and not above.has_pointer,
                    index in clickable,
                    tag,
                    (),
                    _begins_grip(tag, style, above),
                )
            facts.attributes = nodes.attributes[index]
            self.nodes[node_id] = facts
            if parent >= 0:
                self.parents[node_id] = nodes.backend_node_id[parent]
            if index in content:
                self.children.append((node_id, content[index]))


class _Inherited(Struct):
    """What a node hands down to what it holds."""

    is_hidden: bool
    has_pointer: bool
    has_grip: bool
    clip: Box


class _Style(Struct):
    """What counts of the styles of a node."""

    is_block: bool
    has_pointer: bool
    is_transparent: bool
    """Whether it and all that it holds cannot be seen."""
    has_clear_text: bool
    clips: bool
    is_fixed: bool
    has_grip: bool


def _begins_grip(tag: str, style: _Style, above: _Inherited) -> bool:
    return bool(tag) and style.has_grip and not above.has_grip


_PLAIN_STYLE = _Style(False, False, False, False, False, False, False)


class _StyleReader:
    """Reads styles; nodes of the same styles are read once."""

    def __init__(self, strings: list[str]) -> None:
        self._strings = strings
        self._known: dict[tuple[int, ...], _Style] = {}

    def __call__(self, numbers: Sequence[int]) -> _Style:
        if not numbers:
            return _PLAIN_STYLE
        key = tuple(numbers)
        style = self._known.get(key)
        if style is None:
            style = self._known[key] = self._read(key)
        return style

    def _read(self, numbers: tuple[int, ...]) -> _Style:
        values = [self._strings[number] if number >= 0 else "" for number in numbers]
        display, cursor, opacity, overflow_x, overflow_y, position, color, clip_path, background_clip = values
        return _Style(
            is_block=not display.startswith(("inline", "contents", "none", "ruby")),
            has_pointer=cursor == "pointer",
            is_transparent=_read_number(opacity, 1.0) < 0.05 or clip_path.startswith(_EMPTY_CLIPS),
            has_clear_text=color.startswith("rgba(") and color.endswith(", 0)") and "text" not in background_clip,
            clips=overflow_x not in ("visible", "") or overflow_y not in ("visible", ""),
            is_fixed=position == "fixed",
            has_grip=cursor in _GRIPS,
        )


_GRIPS = ("grab", "-webkit-grab", "move")
_EMPTY_CLIPS = ("inset(50%", "inset(100%", "circle(0", "polygon(0px 0px, 0px 0px, 0px 0px")


def _read_number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default


def _judge_box(
    box: Box, style: _Style, above: _Inherited, edges: tuple[float, float], *, clips: bool
) -> tuple[_Inherited, bool, bool]:
    """Return what a node hands down, whether it is hidden, and whether it is in view. `edges` is where its document
    begins: nobody can scroll to what is left of that or above.
    """
    clip = _EVERYTHING if style.is_fixed else above.clip
    is_hidden = above.is_hidden or style.is_transparent
    is_outside = box[2] <= edges[0] or box[3] <= edges[1]
    is_tiny = box[2] - box[0] < _MAX_HIDDEN_SIDE or box[3] - box[1] < _MAX_HIDDEN_SIDE
    seen = _intersect(box, clip)
    is_hidden_itself = is_hidden or is_outside or is_tiny or style.has_clear_text
    in_view = seen is not None and not is_hidden_itself
    if not clips:
        return _Inherited(is_hidden, style.has_pointer, style.has_grip, clip), is_hidden_itself, in_view
    # What a tiny box holds is cut off: a text for screen readers, or a part that is folded up.
    inner = seen if seen is not None else (box[0], box[1], box[0], box[1])
    return _Inherited(is_hidden or is_tiny, style.has_pointer, style.has_grip, inner), is_hidden_itself, in_view


def _intersect(one: Box, other: Box) -> Box | None:
    left, top = max(one[0], other[0]), max(one[1], other[1])
    right, bottom = min(one[2], other[2]), min(one[3], other[3])
    return (left, top, right, bottom) if left < right and top < bottom else None


def read_documents(snapshot: DomSnapshot, origin: tuple[float, float], view: Box) -> list[DocumentFacts]:
    """Return the facts of a session's documents, in the order in which frames hold each other.

    `origin` is where its uppermost document begins in the tab's viewport, `view` what of the tab is seen.
    """
    found: list[DocumentFacts] = []
    waiting: list[tuple[int, tuple[float, float], Box]] = [(0, origin, view)]
    read = set()
    while waiting and len(found) < 100:
        number, begin, clip = waiting.pop(0)
        if number in read or number >= len(snapshot.documents):
            continue
        read.add(number)
        facts = DocumentFacts(snapshot, number, begin, clip)
        found.append(facts)
        for owner, child in facts.children:
            holder = facts.nodes[owner]
            if holder.box is not None and not holder.is_hidden:
                inner = _intersect(holder.box, clip)
                nothing = (holder.box[0], holder.box[1], holder.box[0], holder.box[1])
                waiting.append((child, holder.box[:2], inner if inner is not None else nothing))
    return found


def is_secret_field(tag: str, attributes: Mapping[str, str]) -> bool:
    """Return whether a field holds what must not be shown: a password, a code, the number of a card."""
    if tag not in ("input", "textarea"):
        return False
    kind = attributes.get("type", "").lower()
    if kind == "password":
        return True
    if kind not in _TEXT_TYPES:
        return False
    if any(word in _SECRET_COMPLETIONS for word in attributes.get("autocomplete", "").lower().split()):
        return True
    names = f"{attributes.get('name', '')} {attributes.get('id', '')} {attributes.get('autocomplete', '')}".lower()
    return any(word in names for word in _SECRET_WORDS)
