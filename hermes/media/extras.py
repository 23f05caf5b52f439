"""Which libraries of the reader are installed; what lacks one is refused with the extra that brings it."""

from importlib.util import find_spec

EXTRAS: dict[str, dict[str, str]] = {
    "documents": {"pypdfium2": "PDF", "python_calamine": ".xls"},
    "media": {"PIL": "PNG, JPEG, GIF, WebP, AVIF", "pi_heif": "HEIC"},
}
"""By extra: the modules that it brings, with what they read."""


def list_unread_kinds(extra: str) -> list[str]:
    """Return the kinds of files that are not read without this extra, as it is installed now."""
    return [kind for module, kind in EXTRAS[extra].items() if find_spec(module) is None]
