"""The roles of the accessibility tree that count, and what they are called in an outline.

Source of the names: WAI-ARIA 1.2, and Chromium's own for what that has no role for (`ui/accessibility/ax_enums.mojom`).
"""

from collections.abc import Mapping

_ARIA = """
button link checkbox radio textbox searchbox combobox listbox option slider spinbutton switch tab menuitem
menuitemcheckbox menuitemradio treeitem
"""
INTERACTIVE_WORDS: Mapping[str, str] = {
    **{name: name for name in _ARIA.split()},
    "ColorWell": "color field",
    "Date": "date field",
    "DateTime": "date field",
    "DisclosureTriangle": "button",
    "DisclosureTriangleGrouped": "button",
    "InputTime": "time field",
    "MenuListOption": "option",
    "PopUpButton": "combobox",
    "Audio": "audio",
    "Video": "video",
}
"""Roles of elements that are used, with their words."""
VALUE_ROLES = frozenset(
    {"textbox", "searchbox", "slider", "spinbutton", "Date", "DateTime", "InputTime", "ColorWell", "Audio", "Video"}
)
"""Roles whose insides are nothing but their value and how it is drawn."""
COMPOSITE_ROLES = frozenset({"listbox", "treeitem", "menuitem"})
"""Roles of elements that hold others of their kind."""
CONTAINER_WORDS: Mapping[str, str] = {
    "alert": "alert",
    "alertdialog": "dialog",
    "article": "article",
    "banner": "header",
    "complementary": "aside",
    "contentinfo": "footer",
    "dialog": "dialog",
    "figure": "figure",
    "form": "form",
    "grid": "table",
    "group": "group",
    "main": "main",
    "menu": "menu",
    "menubar": "menu",
    "navigation": "nav",
    "radiogroup": "group",
    "region": "region",
    "search": "search",
    "status": "status",
    "table": "table",
    "tablist": "tabs",
    "tabpanel": "tab panel",
    "toolbar": "toolbar",
    "tree": "tree",
    "treegrid": "table",
}
"""Roles of parts that hold others, with their words."""
_NAMED = """
article banner contentinfo figure form grid group main menu menubar radiogroup region status table tablist tabpanel
toolbar tree treegrid
"""
NAMED_CONTAINERS = frozenset(_NAMED.split())
"""Those that are only told of where they have a name."""
