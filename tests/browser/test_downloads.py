"""Names of files that pages download."""

import pytest

from hermes.browser.downloads import make_safe_name


@pytest.mark.parametrize(
    ("suggested", "name"),
    [
        ("../../evil.sh", "evil.sh"),
        ("C:\\x\\.bashrc", "bashrc"),
        ("", "download"),
        ("a" * 300 + ".pdf", "a" * 96 + ".pdf"),
    ],
)
def test_names_of_downloads_are_made_safe(suggested: str, name: str) -> None:
    assert make_safe_name(suggested) == name
