"""Values in a document of settings by their keys, as variables that stand for settings need them."""

from collections.abc import Mapping


def set_by_path(document: Mapping[str, object], key: str, value: object) -> dict[str, object]:
    """Return the document with the value at `section.name`; a model that is only a name becomes a section."""
    section, _, name = key.partition(".")
    held = document.get(section)
    inner = held if isinstance(held, dict) else {"default": held} if isinstance(held, str) else {}
    return {**document, section: {**inner, name: value}}


def get_by_path(document: Mapping[str, object], key: str) -> object:
    """Return the value at `section.name`, or None."""
    section, _, name = key.partition(".")
    held = document.get(section)
    if isinstance(held, str) and name == "default":
        return held
    return held.get(name) if isinstance(held, dict) else None
