"""A page as short indented lines: what a person sees of it, and refs for what can be done there.

A line is one block of text with the elements in it, one row of a table, or the head of a part that holds other lines.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum

from msgspec import Struct

from hermes.browser.page_facts import Box, DocumentFacts, NodeFacts, is_secret_field
from hermes.browser.protocol import AxNode
from hermes.browser.roles import COMPOSITE_ROLES, CONTAINER_WORDS, INTERACTIVE_WORDS, NAMED_CONTAINERS, VALUE_ROLES
from hermes.browser.tab import VIEWPORT

MAX_NAME = 100
MAX_TEXT = 1_000
MAX_VALUE = 200
_MAX_LINE = 240
_MAX_ACTIONS = 90
"""The characters of a line after which the next element begins another one: lines are told again as a whole."""
_SMALL_WORDS = frozenset({"link", "button", "tab", "menuitem", "option", "clickable"})
"""Elements that may follow each other on a line."""
_MAX_OPTIONS = 12
_MAX_DEPTH = 12
_LARGE_AREA = VIEWPORT[0] * VIEWPORT[1] / 3
"""An element of this size that listens to clicks does so for what it holds."""

NodeId = tuple[str, int]
"""A node: its session, and its number there."""


class LineKind(IntEnum):
    """What a line is; the larger, the earlier it is shown."""

    TEXT = 0
    CONTAINER = 1
    ACTION = 2
    HEADING = 3
    MODAL = 4


class Line(Struct):
    """A line of an outline."""

    node: NodeId
    depth: int
    text: str
    kind: LineKind
    is_in_view: bool
    actions: int
    """How many elements with refs are in it."""


class DocumentTree(Struct):
    """A document: its accessibility tree, and the facts of its nodes."""

    session_id: str
    document_id: str
    nodes: dict[str, AxNode]
    root: AxNode
    facts: DocumentFacts


AssignRef = Callable[["DocumentTree", int, str], str]
"""Returns the ref of a node; it is given its role and name."""


class OutlineWriter:
    """Writes the lines of a page. `trees` are its documents, `held` the document that a frame's element holds."""

    def __init__(
        self,
        trees: list[DocumentTree],
        held: Mapping[NodeId, DocumentTree],
        assign_ref: AssignRef,
        secret_nodes: set[NodeId],
    ) -> None:
        self._trees = trees
        self._held = held
        self._assign_ref = assign_ref
        self._secret_nodes = secret_nodes
        self.lines: list[Line] = []

    def write(self) -> list[Line]:
        """Return the lines of the uppermost document, and of those in its frames."""
        if self._trees:
            self._write_document(self._trees[0], 0)
        return self.lines

    def _write_document(self, tree: DocumentTree, depth: int) -> None:
        writer = _DocumentWriter(self, tree)
        writer.write(depth)

    def write_held(self, node: NodeId, depth: int) -> bool:
        """Write the document that a frame holds; return whether there is one."""
        tree = self._held.get(node)
        if tree is None or depth > _MAX_DEPTH:
            return False
        self._write_document(tree, depth)
        return True

    def give_ref(self, tree: DocumentTree, node_id: int, label: str) -> str:
        """Return the ref of a node."""
        return self._assign_ref(tree, node_id, label)

    def is_secret(self, tree: DocumentTree, node_id: int, facts: NodeFacts | None) -> bool:
        """Return whether a field's value is never shown; one that was secret once stays so."""
        key = (tree.session_id, node_id)
        if key in self._secret_nodes:
            return True
        if facts is None or not is_secret_field(facts.tag, tree.facts.list_attributes(facts)):
            return False
        self._secret_nodes.add(key)
        return True


class _Draft(Struct):
    """The line that is being written."""

    parts: list[str] = []
    is_text: bool = False
    """Whether its last part is a text."""
    last_name: str = ""
    """The name of the element that is its last part."""
    prefix: str = ""
    node: int = 0
    depth: int = 0
    size: int = 0
    kind: LineKind = LineKind.TEXT
    is_in_view: bool = False
    actions: int = 0
    cell: bool = False
    """Whether the next part begins a cell of a table."""


_Step = tuple[int, AxNode | None, int, int]
_ENTER, _FLUSH, _END = 0, 1, 2
"""Steps: enter a node; end a line that has something; end it in any case."""
_QUIET, _IN_ROW = 1, 2
"""How a node is entered: only its elements count, its texts being in a name already; in a row of a table."""
_TEXT_ROLES = frozenset({"StaticText"})
_SKIPPED_ROLES = frozenset({"InlineTextBox", "LineBreak", "ListMarker"})
_CELL_ROLES = frozenset({"cell", "gridcell", "columnheader", "rowheader"})
_NAMED_BY_CONTENT = frozenset({"button", "link", "menuitem", "option", "tab", "treeitem"})
_NO_FILE_VALUE = "No file chosen"
_NO_FILE = f": {_NO_FILE_VALUE}"
_NO_VALUE = frozenset({"editor", "button", "checkbox", "radio", "switch"})
_STATE_WORDS = {
    "checked": "checked",
    "disabled": "disabled",
    "pressed": "pressed",
    "readonly": "readonly",
    "required": "required",
    "selected": "selected",
}


class _DocumentWriter:
    """Writes the lines of one document, without recursion: pages may be nested as deep as they like."""

    def __init__(self, owner: OutlineWriter, tree: DocumentTree) -> None:
        self._owner = owner
        self._tree = tree
        self._facts = tree.facts.nodes
        self._draft = _Draft(parts=[])
        self._stack: list[_Step] = []
        self._labels = find_stand_in_labels(tree)
        self._has_draggable = False

    def write(self, depth: int) -> None:
        begun = len(self._owner.lines)
        self._push_children(self._tree.root, depth, 0)
        while self._stack:
            code, node, depth, mode = self._stack.pop()
            if code == _ENTER and node is not None:
                self._enter(node, depth, mode)
            else:
                self._flush(is_end=code == _END)
        self._flush(is_end=True)
        if self._has_draggable:
            _name_places(self._owner, self._tree, self._owner.lines[begun:])
        self._write_hidden_files(depth)

    def _push_children(self, node: AxNode, depth: int, mode: int) -> None:
        self._stack += [(_ENTER, child, depth, mode) for child in self._list_children(node)]

    def _enter(self, node: AxNode, depth: int, mode: int) -> None:
        role = node.role_name
        facts = self._facts.get(node.backend_dom_node_id)
        if role in _TEXT_ROLES:
            self._enter_text(node, facts, depth, mode)
        elif role in _SKIPPED_ROLES:
            return
        elif node.ignored:
            self._enter_plain(node, facts, depth, mode)
        elif role in INTERACTIVE_WORDS:
            self._enter_interactive(node, facts, depth, mode)
        elif role == "Iframe":
            self._enter_frame(node, facts, depth)
        elif role in ("heading", "listitem", "row", "blockquote"):
            self._enter_line(node, facts, depth, mode)
        elif role in _CELL_ROLES:
            self._enter_cell(node, facts, depth, mode)
        elif role in ("image", "graphics-symbol"):
            self._enter_image(node, facts, depth, mode)
        elif role in CONTAINER_WORDS and not mode & _QUIET:
            self._enter_container(node, facts, depth)
        else:
            self._enter_plain(node, facts, depth, mode)

    def _enter_text(self, node: AxNode, facts: NodeFacts | None, depth: int, mode: int) -> None:
        if mode & _QUIET or facts is None or not self._is_seen(node):
            return
        text = node.label
        if text:
            self._add_text(text[:MAX_TEXT] + ("…" if len(text) > MAX_TEXT else ""), node, facts, depth)

    def _enter_plain(self, node: AxNode, facts: NodeFacts | None, depth: int, mode: int) -> None:
        """Enter a node that is nothing by itself: it may be a block, or only look like something to click."""
        is_block = facts is not None and facts.is_block and not mode & _IN_ROW
        if is_block:
            self._flush()
            self._stack.append((_FLUSH, None, 0, 0))
        if facts is not None and not mode & _QUIET and (word := self._find_promoted_word(node, facts)):
            name, texts_only = self._collect_text(node)
            if word != "editor":
                self._add_element(node, facts, word, name, depth, mode)
                self._push_children(node, depth, mode | _QUIET if texts_only or name else mode)
                return
            self._add_element(node, facts, word, f"{node.label}:" if node.label else "", depth, mode)
        self._push_children(node, depth, mode)

    def _find_promoted_word(self, node: AxNode, facts: NodeFacts) -> str:
        """Return what an element without a role is called that can be acted on all the same; empty for none."""
        if facts.box is None or facts.is_hidden or facts.tag in ("html", "body", "option", ""):
            return ""
        if facts.tag == "label":
            return self._labels.get(node.backend_dom_node_id, "")
        attributes = self._tree.facts.list_attributes(facts) if facts.attributes else {}
        if _is_editable(node):
            return "editor" if attributes.get("contenteditable", "false") not in ("false", "inherit") else ""
        word = "draggable" if _is_draggable(facts, attributes) else ""
        self._has_draggable = self._has_draggable or bool(word)
        return "clickable" if _listens_to_clicks(facts, facts.box) else word

    def _collect_text(self, node: AxNode) -> tuple[str, bool]:
        """Return the text in a node, cut, and whether nothing else is in it."""
        words: list[str] = []
        waiting, seen = [node], 0
        only_texts = True
        while waiting and seen < 60 and sum(map(len, words)) < MAX_NAME:
            one = waiting.pop()
            seen += 1
            role = one.role_name
            if role in _TEXT_ROLES:
                words += [one.label] if self._is_seen(one) else []
                continue
            words += [one.label] if role == "image" and one.label else []
            only_texts = only_texts and role not in INTERACTIVE_WORDS
            waiting += self._list_children(one)
        return " ".join(words), only_texts

    def _find_visible_name(self, node: AxNode) -> str:
        """Return the name of an element without texts in it that a person cannot see, unless it has no others."""
        texts: list[AxNode] = []
        waiting, seen = [node], 0
        while waiting and seen < 60:
            one = waiting.pop()
            seen += 1
            texts += [one] if one.role_name in _TEXT_ROLES and one.label else []
            waiting += self._list_children(one)
        visible = [one.label for one in texts if self._is_seen(one)]
        return " ".join(visible) if 0 < len(visible) < len(texts) else node.label

    def _is_seen(self, node: AxNode) -> bool:
        """Return whether a person can see a text."""
        facts = self._facts.get(node.backend_dom_node_id)
        return not node.ignored and facts is not None and facts.box is not None and not facts.is_hidden

    def _list_children(self, node: AxNode) -> list[AxNode]:
        """Return the children of a node, the last one first."""
        nodes = self._tree.nodes
        return [child for child_id in reversed(node.child_ids) if (child := nodes.get(child_id)) is not None]

    def _enter_interactive(self, node: AxNode, facts: NodeFacts | None, depth: int, mode: int) -> None:
        role = node.role_name
        if facts is None or facts.box is None or not _is_reachable(role, facts):
            self._push_children(node, depth, mode)
            return
        if facts.is_block and not mode & _IN_ROW:
            self._flush()
            self._stack.append((_FLUSH, None, 0, 0))
        word = INTERACTIVE_WORDS[role]
        if facts.tag == "input" and self._tree.facts.list_attributes(facts).get("type", "").lower() == "file":
            word = "file input"
        name = self._find_visible_name(node) if role in _NAMED_BY_CONTENT else node.label.removesuffix(_NO_FILE)
        self._add_element(node, facts, word, name, depth, mode)
        if role in COMPOSITE_ROLES:
            self._push_children(node, depth + 1, mode)
        elif role not in VALUE_ROLES and role != "combobox":
            self._push_children(node, depth, mode | _QUIET)

    def _enter_frame(self, node: AxNode, facts: NodeFacts | None, depth: int) -> None:
        if facts is None or facts.box is None or facts.is_hidden:
            return
        self._flush()
        name = f' "{_cut(node.label, MAX_NAME)}"' if node.label else ""
        self._add_line(node, facts, depth, f"frame{name}:", LineKind.CONTAINER)
        before = len(self._owner.lines)
        if not self._owner.write_held((self._tree.session_id, node.backend_dom_node_id), depth + 1):
            self._push_children(node, depth + 1, 0)
        elif len(self._owner.lines) == before:
            self._owner.lines.pop()

    def _enter_line(self, node: AxNode, facts: NodeFacts | None, depth: int, mode: int) -> None:
        """Enter what is a line of its own: a heading, an item, a row."""
        if mode & _QUIET or mode & _IN_ROW:
            self._push_children(node, depth, mode)
            return
        role = node.role_name
        self._flush(is_end=True)
        draft = self._draft
        draft.node, draft.depth = node.backend_dom_node_id, depth
        if role == "heading":
            draft.prefix = "#" * _read_level(node) + " "
            draft.kind = LineKind.HEADING
        elif role in ("listitem", "blockquote"):
            draft.prefix = "- " if role == "listitem" else "> "
        self._stack.append((_END, None, 0, 0))
        if role == "row":
            self._push_children(node, depth, mode | _IN_ROW)
        else:
            self._push_children(node, depth if role == "heading" else depth + 1, mode)

    def _enter_cell(self, node: AxNode, facts: NodeFacts | None, depth: int, mode: int) -> None:
        self._draft.cell = bool(self._draft.parts)
        if facts is not None and facts.has_pointer and not mode & _QUIET:
            self._enter_plain(node, facts, depth, mode)
        else:
            self._push_children(node, depth, mode)

    def _enter_image(self, node: AxNode, facts: NodeFacts | None, depth: int, mode: int) -> None:
        if mode & _QUIET or facts is None or facts.box is None or facts.is_hidden:
            return
        if facts.has_pointer or facts.is_clickable:
            self._add_element(node, facts, "clickable img", node.label, depth, mode)
        elif node.label:
            self._add_text(f'img "{_cut(node.label, MAX_NAME)}"', node, facts, depth)

    def _enter_container(self, node: AxNode, facts: NodeFacts | None, depth: int) -> None:
        role, name = node.role_name, node.label
        if (not name and role in NAMED_CONTAINERS) or facts is None or depth >= _MAX_DEPTH:
            self._enter_plain(node, facts, depth, 0)
            return
        self._flush()
        is_modal = role in ("dialog", "alertdialog")
        title = f' "{_cut(name, MAX_NAME)}"' if name else ""
        kind = LineKind.MODAL if is_modal else LineKind.CONTAINER
        self._add_line(node, facts, depth, f"{CONTAINER_WORDS[role]}{title}:", kind)
        self._stack.append((_FLUSH, None, 0, 0))
        self._push_children(node, depth + 1, 0)

    def _add_element(self, node: AxNode, facts: NodeFacts, word: str, name: str, depth: int, mode: int) -> None:
        """Add an element with its ref, name, value and states to the line."""
        draft = self._draft
        shown = _cut(name, MAX_NAME)
        label = f'{word} "{shown}"' if shown else word
        ref = self._owner.give_ref(self._tree, node.backend_dom_node_id, label)
        if draft.parts and draft.is_text and draft.parts[-1].rstrip(" :*") == shown.rstrip(" :*"):
            draft.size -= len(draft.parts.pop())
        if draft.actions and (draft.size > _MAX_ACTIONS or word not in _SMALL_WORDS) and not mode & _IN_ROW:
            self._flush()
            draft = self._draft
        text = f"{ref} {label}{self._describe_value(node, facts, word)}{_describe_states(node)}"
        self._add_part(text, node, facts, depth)
        draft.is_text = False
        draft.last_name = shown
        draft.actions += 1
        if draft.kind is LineKind.TEXT:
            draft.kind = LineKind.ACTION

    def _describe_value(self, node: AxNode, facts: NodeFacts, word: str) -> str:
        if facts.tag in ("input", "textarea") and self._owner.is_secret(self._tree, node.backend_dom_node_id, facts):
            return " = (hidden)" if node.value is not None and node.value.value not in (None, "") else ""
        value = node.value.value if node.value is not None else None
        given = "" if value in (None, "", _NO_FILE_VALUE) or word in _NO_VALUE else str(value)
        shown = f" = {_quote(given)}" if given and given != node.label else ""
        return shown + self._describe_options(node, given) if node.role_name == "combobox" else shown

    def _describe_options(self, node: AxNode, value: str) -> str:
        """Return the options of a closed list that is no list of the page's own."""
        names: list[str] = []
        waiting = [node]
        while waiting and len(names) < 200:
            one = waiting.pop()
            if one.role_name in ("option", "MenuListOption") and one.label:
                names.append(_cut(one.label, 40))
            waiting += self._list_children(one)
        if not names:
            return ""
        more = f", {len(names) - _MAX_OPTIONS} more" if len(names) > _MAX_OPTIONS else ""
        return f" of ({', '.join(names[:_MAX_OPTIONS])}{more})"

    def _add_text(self, text: str, node: AxNode, facts: NodeFacts, depth: int) -> None:
        draft = self._draft
        plain = text.rstrip(" :*")
        if draft.parts and not draft.is_text and plain == draft.last_name.rstrip(" :*"):
            return
        if draft.parts and draft.is_text and not draft.cell:
            draft.parts[-1] += f" {text}"
            draft.size += len(text) + 1
            draft.is_in_view = draft.is_in_view or facts.is_in_view
            return
        self._add_part(text, node, facts, depth)
        draft.is_text = True

    def _add_part(self, text: str, node: AxNode, facts: NodeFacts, depth: int) -> None:
        draft = self._draft
        if draft.size + len(text) > _MAX_LINE and draft.parts:
            self._flush()
            draft = self._draft
        if not draft.parts and not draft.node:
            draft.node, draft.depth = node.backend_dom_node_id, depth
        draft.parts.append(f"| {text}" if draft.cell else text)
        draft.cell = False
        draft.size += len(text) + 1
        draft.is_in_view = draft.is_in_view or facts.is_in_view

    def _add_line(self, node: AxNode, facts: NodeFacts, depth: int, text: str, kind: LineKind) -> None:
        key = (self._tree.session_id, node.backend_dom_node_id)
        self._owner.lines.append(Line(key, depth, text, kind, facts.is_in_view, 0))

    def _flush(self, *, is_end: bool = False) -> None:
        """End the line; one that has only its beginning goes on, unless it `is_end`."""
        draft = self._draft
        if draft.parts:
            text = draft.prefix + " ".join(draft.parts)
            key = (self._tree.session_id, draft.node)
            self._owner.lines.append(Line(key, draft.depth, text, draft.kind, draft.is_in_view, draft.actions))
        elif not is_end:
            return
        self._draft = _Draft(parts=[])

    def _write_hidden_files(self, depth: int) -> None:
        """Write the fields for files that nobody sees, since a button of the page's stands in their place."""
        for node_id, facts in self._tree.facts.iter_tags("input"):
            if facts.box is not None and not facts.is_hidden:
                continue
            attributes = self._tree.facts.list_attributes(facts)
            if attributes.get("type", "").lower() != "file":
                continue
            name = _cut(attributes.get("aria-label") or attributes.get("name") or attributes.get("id") or "", MAX_NAME)
            label = f'file input "{name}"' if name else "file input"
            ref = self._owner.give_ref(self._tree, node_id, label)
            key = (self._tree.session_id, node_id)
            self._owner.lines.append(Line(key, depth, f"{ref} {label} (not seen)", LineKind.ACTION, False, 1))


def find_stand_in_labels(tree: DocumentTree) -> dict[int, str]:
    """Return the labels that stand for a field which is not drawn, with the words for these."""
    fields: dict[str, str] = {}
    found: dict[int, str] = {}
    facts = tree.facts
    for node_id, field in facts.iter_tags("input"):
        if field.box is not None:
            continue
        attributes = facts.list_attributes(field)
        kind = attributes.get("type", "").lower()
        if kind not in ("checkbox", "radio", "file"):
            continue
        word = "clickable" if kind == "file" else kind
        if "id" in attributes:
            fields[attributes["id"]] = word
        above = facts.parents.get(node_id)
        while above is not None and facts.nodes[above].tag != "label":
            above = facts.parents.get(above)
        if above is not None:
            found[above] = word
    if fields:
        for node_id, label in facts.iter_tags("label"):
            word = fields.get(facts.list_attributes(label).get("for", ""), "")
            if word:
                found[node_id] = word
    return found


def _is_reachable(role: str, facts: NodeFacts) -> bool:
    """Return whether a person can use an element: fields may be covered by what is drawn in their place."""
    if not facts.is_hidden:
        return True
    box = facts.box
    is_drawn_over = role in ("checkbox", "radio", "switch", "textbox", "slider", "button")
    return is_drawn_over and box is not None and box[2] > 0 and box[3] > 0 and box[2] - box[0] > 0.5


def _is_editable(node: AxNode) -> bool:
    return any(one.name == "editable" and one.value.value == "richtext" for one in node.properties)


def _name_places(owner: OutlineWriter, tree: DocumentTree, lines: list[Line]) -> None:
    """Give refs to lines of a page that has something to drag: what takes it is no element that is used."""
    for line in lines:
        if not line.actions and line.node[1] in tree.facts.nodes:
            line.text = f"{owner.give_ref(tree, line.node[1], _cut(line.text, 40))} {line.text}"
            line.actions = 1


def _is_draggable(facts: NodeFacts, attributes: Mapping[str, str]) -> bool:
    return attributes.get("draggable") == "true" or facts.has_grip


def _listens_to_clicks(facts: NodeFacts, box: Box) -> bool:
    return (facts.has_pointer or facts.is_clickable) and not _is_large(box)


def _is_large(box: Box) -> bool:
    return (box[2] - box[0]) * (box[3] - box[1]) > _LARGE_AREA


def _read_level(node: AxNode) -> int:
    for one in node.properties:
        if one.name == "level" and isinstance(one.value.value, int):
            return max(1, min(one.value.value, 6))
    return 2


def _describe_states(node: AxNode) -> str:
    words: list[str] = []
    for one in node.properties:
        value = one.value.value
        if one.name == "expanded":
            is_open = value in (True, "true")
            words += ["expanded"] if is_open else [] if node.role_name == "combobox" else ["collapsed"]
        elif value == "mixed":
            words.append(f"{one.name} mixed")
        elif value in (True, "true"):
            word = _STATE_WORDS.get(one.name) or ("invalid" if one.name == "invalid" else "")
            words += [word] if word else []
    return f" [{', '.join(words)}]" if words else ""


def _quote(text: str) -> str:
    return f'"{_cut(text, MAX_VALUE)}"'


def _cut(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
