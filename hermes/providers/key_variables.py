"""Keys in environment variables: `NAME`, then `NAME_1`, `NAME_2` and so on, then a list in `NAMES`.

Other agents of this kind read the same forms. The numbered ones end at the first that is not set (`NAME_1` may be left
out), so a forgotten `NAME_7` does not join. `NAME` itself is one key, whatever is in it.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, count

_KEY_SEPARATORS = re.compile(r"[\s,;]+")
_KEY_CHARACTERS = re.compile(r"[!-~]+")


def is_valid_key(key: str) -> bool:
    """Return whether the text can be a key: one that holds a space, a line break or a typographic sign never is."""
    return _KEY_CHARACTERS.fullmatch(key) is not None


def list_variable_keys(names: tuple[str, ...], environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every key of these variables with the name of its place, each value once."""
    seen = set()
    for place, key in chain.from_iterable(_keys_of_name(name, environ) for name in names):
        if key not in seen:
            seen.add(key)
            yield place, key


def _keys_of_name(name: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if key := environ.get(name, "").strip():
        yield name, key
    for number in count(1):
        key = environ.get(f"{name}_{number}", "").strip()
        if key:
            yield f"{name}_{number}", key
        elif number > 1:
            break
    listed = environ.get(f"{name}S", "")
    if listed:
        for number, key in enumerate(filter(None, _KEY_SEPARATORS.split(listed)), 1):
            yield f"{name}S#{number}", key
