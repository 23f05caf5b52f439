"""Which addresses are opened."""

import pytest

from hermes.browser.navigation import normalize_address
from hermes.core.errors import BrowserError


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("example.com/a", "https://example.com/a"),
        (" localhost:8000 ", "http://localhost:8000"),
        ("http://a.example", "http://a.example"),
        ("//a.example", "https://a.example"),
    ],
)
def test_addresses_are_completed(given: str, address: str) -> None:
    assert normalize_address(given) == address


@pytest.mark.parametrize(
    "given", ["file:///etc/passwd", "javascript:alert(1)", "chrome://settings", "data:text/html,x", "two words", ""]
)
def test_what_is_no_page_of_the_web_is_refused(given: str) -> None:
    with pytest.raises(BrowserError):
        normalize_address(given)
