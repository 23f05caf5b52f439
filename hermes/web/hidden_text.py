"""What a page holds that its reader would not see. Standard library only, as all that the converter runs."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_MAX_RULES = 60
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_NONE_SHOWN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0+(?![.\d])|"
    r"font-size\s*:\s*0*\.?[01](?:\.0+)?(?:px|pt|em|rem|%)?\s*(?:;|!|$)|"
    r"(?:text-indent|left|top|right|margin-left|margin-top)\s*:\s*-\s*\d{3,}|"
    r"clip\s*:\s*rect\(\s*[01]?(?:px)?[\s,]|clip-path\s*:\s*(?:inset\(\s*(?:50|100)%|circle\(\s*0)|"
    r"transform\s*:\s*scale\w?\(\s*0\s*[,)]|color\s*:\s*transparent",
    re.IGNORECASE,
)
_SMALL = re.compile(r"(?:^|[;\s])(?:max-)?(?:width|height)\s*:\s*[01](?:px)?\s*(?=[;!]|$)", re.IGNORECASE)
_COLOUR = re.compile(r"(?:^|[;\s])color\s*:\s*([^;!]+)", re.IGNORECASE)
_BACKGROUND = re.compile(r"background(?:-color)?\s*:\s*([^;!]+)", re.IGNORECASE)
_WHITE = frozenset({"white", "#fff", "#ffffff", "#fefefe", "rgb(255,255,255)", "rgba(255,255,255,1)", "snow"})
_SIMPLE = re.compile(r"[a-z0-9]*(?:[.#][A-Za-z_][\w-]*)+", re.ASCII)


def hides(style: str) -> bool:
    """Whether an inline style keeps its element from being seen."""
    style = _COMMENT.sub("", style)
    if _NONE_SHOWN.search(style) or len(_SMALL.findall(style)) > 1:
        return True
    colour = _COLOUR.search(style)
    if colour is None:
        return False
    background = _BACKGROUND.search(style)
    ink = re.sub(r"\s", "", colour[1].lower())
    paper = re.sub(r"\s", "", background[1].lower()) if background else ""
    return ink == paper or (not paper and ink in _WHITE)


def hidden_nodes(tree: "LexborHTMLParser") -> set[int]:
    """The elements that a reader would not see, by what stands in them and by the page's own plain style rules."""
    found = set()
    for node in tree.css("[style],[hidden],[aria-hidden],[color]"):
        given = node.attributes
        shown = given.get("aria-hidden") != "true" and "hidden" not in given
        if not shown or hides(given.get("style") or "") or (given.get("color") or "").lower() in _WHITE:
            found.add(node.mem_id)
    selectors: list[str] = []
    for sheet in tree.css("style"):
        selectors += hiding_selectors(sheet.text() or "")
    if selectors:
        found.update(node.mem_id for node in tree.css(",".join(selectors[:_MAX_RULES])))
    return found


def hiding_selectors(sheet: str) -> list[str]:
    """The plain selectors (`.name`, `#id`) that a style sheet hides, those within @media left out."""
    found: list[str] = []
    depth = start = opened = 0
    sheet = _COMMENT.sub("", sheet[:200_000])
    for brace in re.finditer(r"[{}]", sheet):
        if brace[0] == "{":
            depth += 1
            opened = brace.start() if depth == 1 else opened
            continue
        depth = max(depth - 1, 0)
        if depth:
            continue
        if hides(sheet[opened + 1 : brace.start()]) and "{" not in sheet[opened + 1 : brace.start()]:
            names = (name.strip() for name in sheet[start:opened].split(","))
            found += [name for name in names if _SIMPLE.fullmatch(name)]
        start = brace.end()
    return found
