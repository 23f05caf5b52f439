"""The texts of the catalogue, `words/LANGUAGE/*.json`: English to translated."""

import os
from functools import cache


@cache
def translations(language: str) -> dict[str, str]:
    """Everything that can be said in a language but English, by its English text."""
    import json

    table: dict[str, str] = {}
    folder = os.path.join(os.path.dirname(__file__), "words", language)
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            table |= json.load(file)
    return table
