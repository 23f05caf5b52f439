"""The translations of messages, `words/LANGUAGE/*.json`: English text to translated text."""

import os
from functools import cache


@cache
def load_translations(language: str) -> dict[str, str]:
    """Return all translations of a language other than English, by their English text."""
    import json

    table: dict[str, str] = {}
    folder = os.path.join(os.path.dirname(__file__), "words", language)
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            table |= json.load(file)
    return table
