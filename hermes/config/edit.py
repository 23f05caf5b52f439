"""Changes to a person's `config.yaml` that leave everything else in it, comments too, as it is."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from hermes.core.errors import ConfigError
from hermes.util.atomic import write_atomic


def add_to_list(file: Path, key: str, items: Sequence[str]) -> None:
    """Put items at the end of a top-level list, once each; the list and the file are made where they are missing.

    Raises ConfigError, with nothing changed, when the file cannot be changed without touching something else.
    """
    text = _read(file)
    before = _parsed(text, file)
    listed = before.get(key) or []
    if not isinstance(listed, list):
        raise ConfigError(f"`{key}` in {file} is not a list.", "Make it one, then answer again.")
    fresh = [item for item in dict.fromkeys(items) if item not in listed]
    if not fresh:
        return
    changed = _with_items(text, key, listed, fresh)
    after = _parsed(changed, file)
    if after != {**before, key: [*listed, *fresh]}:
        raise ConfigError(f"`{key}` in {file} cannot be added to by itself.", f"Add by hand: {', '.join(fresh)}")
    write_atomic(file, changed.encode(), mode=0o600)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.", "Nothing was changed.") from None


def _parsed(text: str, file: Path) -> dict[str, object]:
    import yaml

    try:
        found = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {error}", "Mend it first; nothing was changed.") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"{file} is not a mapping.", "Mend it first; nothing was changed.")
    return found


def _with_items(text: str, key: str, listed: Sequence[object], fresh: Sequence[str]) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    added = [json.dumps(item, ensure_ascii=False) for item in fresh]  # a JSON string is a YAML one
    at, end = _block(lines, key)
    items = [number for number in range(at + 1, end) if lines[number].lstrip().startswith("- ")]
    if not items:
        whole = [json.dumps(item, ensure_ascii=False) for item in listed] + added
        return "".join([*lines[:at], f"{key}:\n", *(f"  - {one}\n" for one in whole), *lines[end:]])
    last = lines[items[-1]]
    indent = last[: len(last) - len(last.lstrip())]
    behind = items[-1] + 1
    while behind < end and lines[behind].startswith(indent + " "):
        behind += 1  # an item that goes on over several lines
    return "".join([*lines[:behind], *(f"{indent}- {one}\n" for one in added), *lines[behind:]])


def _block(lines: Sequence[str], key: str) -> tuple[int, int]:
    """Where a key of the top level stands, and where the next one begins."""
    head = re.compile(rf"{re.escape(key)}\s*:")
    at = next((number for number, line in enumerate(lines) if head.match(line)), len(lines))
    return at, next((number for number in range(at + 1, len(lines)) if _begins_another(lines[number])), len(lines))


def _begins_another(line: str) -> bool:
    """Whether a line begins the next key of the document's top level."""
    return bool(line.strip()) and line[0] not in " \t-#"
