"""The tools of the browser: web pages used as a person uses them."""

from hermes.tools.builtin.browser.elements import (
    browser_click,
    browser_drag,
    browser_hover,
    browser_press,
    browser_select,
    browser_type,
    browser_upload,
)
from hermes.tools.builtin.browser.inspection import browser_console, browser_get_images, browser_vision
from hermes.tools.builtin.browser.pages import (
    browser_back,
    browser_dialog,
    browser_navigate,
    browser_scroll,
    browser_snapshot,
    browser_tabs,
    browser_wait,
)
from hermes.tools.builtin.browser.protocol_calls import browser_cdp

__all__ = [
    "browser_back",
    "browser_cdp",
    "browser_click",
    "browser_console",
    "browser_dialog",
    "browser_drag",
    "browser_get_images",
    "browser_hover",
    "browser_navigate",
    "browser_press",
    "browser_scroll",
    "browser_select",
    "browser_snapshot",
    "browser_tabs",
    "browser_type",
    "browser_upload",
    "browser_vision",
    "browser_wait",
]
