"""The shapes of the DevTools protocol that are used here; what is not used of a message is not decoded.

Source of the names: https://chromedevtools.github.io/devtools-protocol/tot/.
"""

from msgspec import Struct, field

Scalar = bool | int | float | str | None


class TargetInfo(Struct, rename="camel"):
    """A page, frame or worker of the browser."""

    target_id: str
    type: str
    url: str = ""
    title: str = ""
    opener_id: str = ""


class AttachedToTarget(Struct, rename="camel"):
    """A session with a target has begun, which waits to be let run if it is new."""

    session_id: str
    target_info: TargetInfo


class DetachedFromTarget(Struct, rename="camel"):
    """A session has ended."""

    session_id: str


class CreatedTarget(Struct, rename="camel"):
    """A target that was made."""

    target_id: str


class AxValue(Struct):
    """A value of the accessibility tree."""

    value: Scalar = None


class AxProperty(Struct):
    """A state or property of a node of the accessibility tree."""

    name: str
    value: AxValue


class AxNode(Struct, rename="camel"):
    """A node of the accessibility tree."""

    node_id: str
    ignored: bool = False
    role: AxValue | None = None
    name: AxValue | None = None
    value: AxValue | None = None
    properties: list[AxProperty] = []
    child_ids: list[str] = []
    backend_dom_node_id: int = field(default=0, name="backendDOMNodeId")

    @property
    def role_name(self) -> str:
        """The role, or nothing."""
        return str(self.role.value or "") if self.role is not None else ""

    @property
    def label(self) -> str:
        """The computed name on one line, or nothing."""
        return " ".join(str(self.name.value or "").split()) if self.name is not None else ""


class AxTree(Struct):
    """The accessibility tree of a frame."""

    nodes: list[AxNode]


class RareStrings(Struct, frozen=True):
    """Strings that few nodes have, by node."""

    index: list[int] = []
    value: list[int] = []


class RareFlags(Struct, frozen=True):
    """The nodes that have a property which few have."""

    index: list[int] = []


class NodeTable(Struct, rename="camel"):
    """The nodes of a document, a list a property."""

    parent_index: list[int]
    node_type: list[int]
    node_name: list[int]
    backend_node_id: list[int]
    attributes: list[list[int]]
    input_value: RareStrings
    text_value: RareStrings
    content_document_index: RareStrings
    is_clickable: RareFlags
    current_source_url: RareStrings = RareStrings()


class LayoutTable(Struct, rename="camel"):
    """The boxes of a document's nodes, a list a property."""

    node_index: list[int]
    styles: list[list[int]]
    bounds: list[tuple[float, float, float, float]]


class DocumentTable(Struct, rename="camel"):
    """A document as `DOMSnapshot.captureSnapshot` describes it."""

    frame_id: int
    nodes: NodeTable
    layout: LayoutTable
    scroll_offset_x: float = 0.0
    scroll_offset_y: float = 0.0


class DomSnapshot(Struct):
    """The documents of a session, the first of which holds the others; `strings` are what numbers stand for."""

    documents: list[DocumentTable]
    strings: list[str]


class Frame(Struct, rename="camel"):
    """A frame as its page knows it."""

    id: str
    loader_id: str = ""
    parent_id: str = ""
    url: str = ""
    url_fragment: str = ""
    unreachable_url: str = ""


class FrameTree(Struct):
    """A frame with those in it, of which nothing is told here."""

    frame: Frame


class FrameTreeResult(Struct, rename="camel"):
    """The answer to `Page.getFrameTree`."""

    frame_tree: FrameTree


class FrameEvent(Struct, rename="camel"):
    """An event that names a frame."""

    frame_id: str = ""
    reason: str = ""


class FrameNavigated(Struct):
    """A frame shows another document."""

    frame: Frame


class NavigatedWithinDocument(Struct, rename="camel"):
    """A frame's address has changed, its document has not."""

    frame_id: str
    url: str


class NavigateResult(Struct, rename="camel"):
    """The answer to `Page.navigate`."""

    frame_id: str = ""
    loader_id: str = ""
    error_text: str = ""
    is_download: bool = False


class HistoryEntry(Struct):
    """A page of a tab's history."""

    id: int
    url: str


class NavigationHistory(Struct, rename="camel"):
    """A tab's history."""

    current_index: int
    entries: list[HistoryEntry]


class RequestSent(Struct, rename="camel"):
    """A request has begun."""

    request_id: str
    loader_id: str = ""
    type: str = ""
    frame_id: str = ""


class NetworkRequestEnded(Struct, rename="camel"):
    """A request has ended, well or not."""

    request_id: str


class Response(Struct):
    """The head of a response."""

    status: int = 0


class ResponseReceived(Struct, rename="camel"):
    """A response has begun."""

    request_id: str
    response: Response
    type: str = ""
    frame_id: str = ""
    loader_id: str = ""


class DialogOpening(Struct, rename="camel"):
    """A page asks by a dialog of JavaScript, and does nothing until it is answered."""

    message: str
    type: str
    url: str = ""
    default_prompt: str = ""


class FileChooserOpened(Struct, rename="camel"):
    """A page asks for files."""

    frame_id: str = ""
    mode: str = ""
    backend_node_id: int = 0


class DragIntercepted(Struct):
    """A drag of HTML5 has begun; `data` is what it carries."""

    data: dict[str, object]


class DownloadWillBegin(Struct, rename="camel"):
    """A download begins."""

    guid: str
    url: str = ""
    suggested_filename: str = ""


class DownloadProgress(Struct, rename="camel"):
    """A download goes on, or has ended: `state` is inProgress, completed or canceled."""

    guid: str
    state: str
    received_bytes: float = 0
    total_bytes: float = 0


class RemoteObject(Struct, rename="camel"):
    """A value of a page's script."""

    type: str = ""
    subtype: str = ""
    value: object = None
    unserializable_value: str = ""
    description: str = ""
    object_id: str = ""


class ExceptionDetails(Struct, rename="camel"):
    """An error of a page's script."""

    text: str = ""
    url: str = ""
    exception: RemoteObject | None = None


class EvaluateResult(Struct, rename="camel"):
    """What an expression gave."""

    result: RemoteObject
    exception_details: ExceptionDetails | None = None


class ConsoleCalled(Struct):
    """A page has written to its console."""

    type: str
    args: list[RemoteObject] = []


class ExceptionThrown(Struct, rename="camel"):
    """A script of a page has failed."""

    exception_details: ExceptionDetails


class PageLogEntry(Struct):
    """A message of the browser's own about a page."""

    level: str
    text: str
    url: str = ""


class LogEntryAdded(Struct):
    """The browser says something about a page."""

    entry: PageLogEntry


class Quads(Struct):
    """The boxes of a node: eight numbers each, the corners from the upper left one."""

    quads: list[list[float]]


class LayoutViewport(Struct, rename="camel"):
    """How far a page is scrolled, in its pixels."""

    page_x: float = 0.0
    page_y: float = 0.0


class LayoutMetrics(Struct, rename="camel"):
    """The sizes of a page."""

    css_layout_viewport: LayoutViewport


class HitNode(Struct, rename="camel"):
    """The uppermost node at a point."""

    backend_node_id: int
    frame_id: str = ""


class FrameOwner(Struct, rename="camel"):
    """The element that holds a frame."""

    backend_node_id: int


class BoxModel(Struct):
    """The boxes of an element."""

    content: list[float]


class BoxModelResult(Struct):
    """The answer to `DOM.getBoxModel`."""

    model: BoxModel


class ResolvedNode(Struct):
    """A node as a script can be given it."""

    object: RemoteObject


class IsolatedWorld(Struct, rename="camel"):
    """A world of scripts that the page's own scripts cannot reach."""

    execution_context_id: int


class Screenshot(Struct):
    """A picture, in base64."""

    data: str
