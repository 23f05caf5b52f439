"""Finds the text of a page that its reader would not see. Standard library only, as all that the converter runs."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_MAX_RULES = 60
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_HIDING_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0+(?![.\d])|"
    r"font-size\s*:\s*0*\.?[01](?:\.0+)?(?:px|pt|em|rem|%)?\s*(?:;|!|$)|"
    r"(?:text-indent|left|top|right|margin-left|margin-top)\s*:\s*-\s*\d{3,}|"
    r"clip\s*:\s*rect\(\s*[01]?(?:px)?[\s,]|clip-path\s*:\s*(?:inset\(\s*(?:50|100)%|circle\(\s*0)|"
    r"transform\s*:\s*scale\w?\(\s*0\s*[,)]|color\s*:\s*transparent",
    re.IGNORECASE,
)
_TINY_SIZE = re.compile(r"(?:^|[;\s])(?:max-)?(?:width|height)\s*:\s*[01](?:px)?\s*(?=[;!]|$)", re.IGNORECASE)
_TEXT_COLOR = re.compile(r"(?:^|[;\s])color\s*:\s*([^;!]+)", re.IGNORECASE)
_BACKGROUND_COLOR = re.compile(r"background(?:-color)?\s*:\s*([^;!]+)", re.IGNORECASE)
_WHITE_COLORS = frozenset({"white", "#fff", "#ffffff", "#fefefe", "rgb(255,255,255)", "rgba(255,255,255,1)", "snow"})
_SIMPLE_SELECTOR = re.compile(r"[a-z0-9]*(?:[.#][A-Za-z_][\w-]*)+", re.ASCII)


def is_hiding_style(style: str) -> bool:
    """Return whether an inline style keeps its element from being seen."""
    style = _COMMENT.sub("", style)
    if _HIDING_STYLE.search(style) or len(_TINY_SIZE.findall(style)) > 1:
        return True
    color = _TEXT_COLOR.search(style)
    if color is None:
        return False
    background = _BACKGROUND_COLOR.search(style)
    ink = re.sub(r"\s", "", color[1].lower())
    paper = re.sub(r"\s", "", background[1].lower()) if background else ""
    return ink == paper or (not paper and ink in _WHITE_COLORS)


def find_hidden_nodes(tree: "LexborHTMLParser") -> set[int]:
    """Return the elements that a reader would not see, by their attributes and the page's own simple style rules."""
    found = set()
    for node in tree.css("[style],[hidden],[aria-hidden],[color]"):
        given = node.attributes
        shown = given.get("aria-hidden") != "true" and "hidden" not in given
        if (
            not shown
            or is_hiding_style(given.get("style") or "")
            or (given.get("color") or "").lower() in _WHITE_COLORS
        ):
            found.add(node.mem_id)
    selectors: list[str] = []
    for sheet in tree.css("style"):
        selectors += find_hiding_selectors(sheet.text() or "")
    if selectors:
        found.update(node.mem_id for node in tree.css(",".join(selectors[:_MAX_RULES])))
    return found


def find_hiding_selectors(sheet: str) -> list[str]:
    """Return the simple selectors (`.name`, `#id`) that a style sheet hides, except those within @media."""
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
        if is_hiding_style(sheet[opened + 1 : brace.start()]) and "{" not in sheet[opened + 1 : brace.start()]:
            names = (name.strip() for name in sheet[start:opened].split(","))
            found += [name for name in names if _SIMPLE_SELECTOR.fullmatch(name)]
        start = brace.end()
    return found
