"""Changes to a person's `config.yaml` that keep everything else in it, comments too, as it is.

Every change is tried on the text first: the result is parsed, and unless exactly the one key differs
nothing is
written.
"""

import copy
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.core.errors import ConfigError
from hermes.i18n.disk_errors import advise_on_write_error
from hermes.i18n.messages import N_
from hermes.util.atomic_write import write_atomic

if TYPE_CHECKING:
    from yaml import Node

_PLAIN_STRING = re.compile(r"[A-Za-z_./][\w./@+-]*(?::[\w./@+-]+)*", re.ASCII)
"""Strings that may stand without quotes, if YAML takes them for strings."""
_INDENT = 2


def add_to_list(file: Path, key: str, items: Sequence[str]) -> None:
    """Append items to a top-level list, once each; the list and the file are made where they are missing.

    Raises ConfigError, with nothing changed, when the file cannot be changed without touching something else.
    """
    text = read_text(file)
    before = parse_mapping(text, file)
    listed = before.get(key) or []
    if not isinstance(listed, list):
        raise ConfigError(N_("`{key}` in {file} is not a list.", key=key, file=file), "Make it one, then answer again.")
    fresh = [item for item in dict.fromkeys(items) if item not in listed]
    if not fresh:
        return
    root = _compose_tree(text)
    wanted = {**before, key: [*listed, *fresh]}
    changed = _put_inline(text, root, (key,), wanted[key]) if _is_inline(root) else _add_items(text, key, listed, fresh)
    try:
        is_right = parse_mapping(changed, file) == wanted
    except ConfigError:
        is_right = False
    if not is_right:
        raise ConfigError(
            N_("`{key}` in {file} cannot be added to by itself.", key=key, file=file),
            N_("Add by hand: {fresh}", fresh=", ".join(fresh)),
        )
    write_atomic(file, changed.encode(), mode=0o600)


def set_values(file: Path, changes: Mapping[tuple[str, ...], object]) -> None:
    """Set keys (paths, such as `("model", "default")`) to values, all in one write; the file is made when
    missing.

    Raises ConfigError, with nothing changed, when that cannot be done without touching something else.
    """
    text = before = read_text(file)
    for path, value in changes.items():
        text = set_text_value(text, path, value, file)
    if text != before or not file.exists():
        write_text(file, text)


def unset_value(file: Path, path: tuple[str, ...]) -> bool:
    """Remove a key, and mappings that are then empty. Return whether it was there. Raises ConfigError as
    `set_values` does.
    """
    text = read_text(file)
    changed = remove_text_value(text, path, file)
    if changed != text:
        write_text(file, changed)
    return changed != text


def set_text_value(text: str, path: tuple[str, ...], value: object, file: Path) -> str:
    """Return the text of the file with the key set to this value. Raises ConfigError."""
    before = parse_mapping(text, file)
    wanted = _set_path(before, path, value)
    if wanted == before and _has_path(before, path):
        return text
    changed = _put_value(text, path, value)
    return _check_change(changed, wanted, path, file)


def remove_text_value(text: str, path: tuple[str, ...], file: Path) -> str:
    """Return the text of the file without the key; the same text when it is not there. Raises ConfigError."""
    before = parse_mapping(text, file)
    if not _has_path(before, path):
        return text
    wanted = _remove_path(before, path)
    root = _compose_tree(text)
    found = _find_nodes(root, path)
    deepest = len(path)
    while deepest > 1 and not _has_path(wanted, path[: deepest - 1]):
        deepest -= 1  # what would be left empty goes with it
    holder = _inline_mapping_depth(found, deepest - 1)
    if not holder and root is not None and _is_inline(root):
        changed = _remove_inline(text, found[deepest - 2][1] if deepest > 1 else root, found[deepest - 1])
    elif holder:
        node = found[holder - 1][1]
        left = _get_path(wanted, path[:holder]) if _has_path(wanted, path[:holder]) else {}
        changed = text[: node.start_mark.index] + _format_inline(left) + text[node.end_mark.index :]
    else:
        key, node = found[deepest - 1]
        begin = _line_start(text, key.start_mark.index)
        changed = text[:begin] + text[_line_end(text, _find_last_index(node, key)) :]
    return _check_change(changed, wanted, path, file)


def find_line(text: str, path: Sequence[str]) -> int:
    """Return the line (from 1) of a key, or of the nearest existing key above it; 0 when there is none."""
    import yaml

    try:
        found = _find_nodes(_compose_tree(text), path)
    except yaml.YAMLError:
        return 0
    return int(found[-1][0].start_mark.line) + 1 if found else 0


def read_text(file: Path) -> str:
    """Return the file's text, line ends as they are; empty when there is no file. Raises ConfigError."""
    try:
        with open(file, encoding="utf-8", newline="") as source:
            return source.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            N_("{file} cannot be read: {error}.", file=file, error=error), "Nothing was changed."
        ) from None


def parse_mapping(text: str, file: Path) -> dict[str, object]:
    """Parse the text. Raises ConfigError when it is not a YAML mapping."""
    import yaml

    try:
        found = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except yaml.YAMLError as error:
        raise ConfigError(
            N_("{file} is not valid YAML: {error}", file=file, error=error), "Fix it first; nothing was changed."
        ) from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(N_("{file} is not a mapping.", file=file), "Fix it first; nothing was changed.")
    return found


def write_text(file: Path, text: str) -> None:
    """Write the text to the file. Raises ConfigError."""
    try:
        write_atomic(file, text.encode(), mode=0o600, make_folders=True)
    except OSError as error:
        raise ConfigError(
            N_("{file} cannot be written: {why}.", file=file, why=error.strerror or error), advise_on_write_error(error)
        ) from None


def _check_change(changed: str, wanted: dict[str, object], path: Sequence[str], file: Path) -> str:
    """Return the changed text if exactly the wanted change was made. Raises ConfigError otherwise."""
    key = ".".join(path)
    try:
        if parse_mapping(changed, file) == wanted:
            return changed
    except ConfigError:
        pass
    raise ConfigError(
        N_("`{key}` in {file} cannot be changed by itself.", key=key, file=file),
        N_("Change it by hand: hermes config edit"),
    )


def _put_value(text: str, path: tuple[str, ...], value: object) -> str:
    """Return the text with the value put where it belongs."""
    root = _compose_tree(text)
    if _is_inline(root):
        return _put_inline(text, root, path, value)
    found = _find_nodes(root, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    holder = _inline_mapping_depth(found, len(found))
    if holder and holder < len(path):
        node = found[holder - 1][1]
        inside = _set_path(_node_to_mapping(text, node), path[holder:], value)
        return text[: node.start_mark.index] + _format_inline(inside) + text[node.end_mark.index :]
    if len(found) == len(path):
        return _replace_value(text, *found[-1], value, newline)
    rest = path[len(found) :]
    if not found:
        return _end_line(text, newline) + _format_nested(rest, value, 0, newline)
    key, node = found[-1]
    if _is_mapping(node) and node.value:
        at = _line_end(text, _find_last_index(node, key))
        below = _format_nested(rest, value, node.value[0][0].start_mark.column, newline)
        return _end_line(text[:at], newline) + below + text[at:]
    is_name = path[0] == "model" and len(found) == 1 and str(node.tag).endswith(":str")
    short = is_name and rest != ("default",)
    return _open_section(
        text, key, node, _format_nested(rest, value, key.start_mark.column + _INDENT, newline), short=short
    )


def _put_inline(text: str, root: "Node | None", path: tuple[str, ...], value: object) -> str:
    """Return a document that is one mapping in braces, as JSON is, with the value put where it belongs."""
    assert root is not None
    found = _find_nodes(root, path)
    if len(found) == len(path):
        node, added = found[-1][1], json.dumps(value, ensure_ascii=False)
        return text[: node.start_mark.index] + added + text[node.end_mark.index :]
    holder = found[-1][1] if found else root
    name, *rest = path[len(found) :]
    for inner in reversed(rest):
        value = {inner: value}
    added = json.dumps({name: value}, ensure_ascii=False)
    if not _is_mapping(holder):
        begin, end = holder.start_mark.index, holder.end_mark.index
        is_name = path[0] == "model" and len(found) == 1 and str(holder.tag).endswith(":str") and name != "default"
        named = f'"default": {text[begin:end]}, ' if is_name else ""
        return f"{text[:begin]}{{{named}{added[1:]}{text[end:]}"
    at = holder.value[-1][1].end_mark.index if holder.value else holder.start_mark.index + 1
    return text[:at] + (", " if holder.value else "") + added[1:-1] + text[at:]


def _remove_inline(text: str, holder: "Node", pair: "tuple[Node, Node]") -> str:
    """Return the text without a pair of a mapping in braces, and without the comma at it."""
    place = next(number for number, one in enumerate(holder.value) if one[0] is pair[0])
    begin, end = pair[0].start_mark.index, pair[1].end_mark.index
    if place:
        begin = holder.value[place - 1][1].end_mark.index
    elif len(holder.value) > 1:
        end = holder.value[1][0].start_mark.index
    return text[:begin] + text[end:]


def _open_section(text: str, key: "Node", node: "Node", below: str, *, short: bool) -> str:
    """Return the text with lines below a key that held no mapping yet; with `short`, its old value becomes
    `default`.
    """
    newline = "\r\n" if below.endswith("\r\n") else "\n"
    begin, end = node.start_mark.index, node.end_mark.index
    if begin == end:  # nothing stood there
        at = _line_end(text, key.end_mark.index)
        return _end_line(text[:at], newline) + below + text[at:]
    if not short:
        return text[:begin].rstrip(" ") + newline + below.rstrip("\r\n") + text[end:]
    default_line = f"{newline}{' ' * (key.start_mark.column + _INDENT)}default: {text[begin:end]}"
    head = text[:begin].rstrip(" ") + default_line
    at = _line_end(text, end - 1)
    return _end_line(head + text[end:at], newline) + below + text[at:]


def _replace_value(text: str, key: "Node", node: "Node", value: object, newline: str) -> str:
    """Return the text with another value behind a key."""
    begin, end = node.start_mark.index, node.end_mark.index
    if begin == end:  # nothing stood there
        return f"{text[: key.end_mark.index]}: {_format_inline(value)}{text[_find_colon_end(text, key) :]}"
    block = getattr(node, "style", None) in ("|", ">") or getattr(node, "flow_style", True) is False
    if not block:
        return text[:begin] + _format_inline(value) + text[end:]
    last = min(_line_end(text, _find_last_index(node, key)), len(text))
    lines = _format_block_list(value, node.start_mark.column, newline) if isinstance(value, list) else ""
    head = text[: _find_colon_end(text, key)]
    tail = text[_find_colon_end(text, key) : _line_end(text, key.end_mark.index)]
    comment = tail.strip() if tail.strip().startswith("#") else ""
    first = f" {comment}{newline}" if comment else newline
    if lines:
        return head + first + lines + text[last:]
    return f"{head} {_format_inline(value)}{'  ' + comment if comment else ''}{newline}{text[last:]}"


def _format_block_list(value: Sequence[object], column: int, newline: str) -> str:
    """Format a list as block lines."""
    return "".join(f"{' ' * column}- {_format_inline(item)}{newline}" for item in value)


def _format_nested(path: Sequence[str], value: object, indent: int, newline: str) -> str:
    """Format lines for a key and the keys that it is in, each indented by two."""
    lines = [f"{' ' * (indent + _INDENT * depth)}{_format_inline(name)}:" for depth, name in enumerate(path)]
    return newline.join(lines) + f" {_format_inline(value)}{newline}"


def _format_inline(value: object) -> str:
    """Format a value on one line: plain where that is safe, else as JSON, which is YAML too."""
    if isinstance(value, str) and _PLAIN_STRING.fullmatch(value):
        import yaml

        if yaml.safe_load(value) == value:
            return value
    return json.dumps(value, ensure_ascii=False)


def _end_line(text: str, newline: str) -> str:
    return text if not text or text.endswith("\n") else text + newline


def _compose_tree(text: str) -> "Node | None":
    import yaml

    # The pure Python loader: its marks count characters, whatever is in the text.
    node: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    return node


def _find_nodes(root: "Node | None", path: Sequence[str]) -> "list[tuple[Node, Node]]":
    """Return the keys of the path with their values, as far as they exist; of a duplicate key the last."""
    found: list[tuple[Node, Node]] = []
    node = root
    for name in path:
        pairs = node.value if node is not None and _is_mapping(node) else ()
        pair = next(((key, value) for key, value in reversed(pairs) if key.value == name), None)
        pair = pair or _find_item(node, name)
        if pair is None:
            break
        found.append(pair)
        node = pair[1]
    return found


def _find_item(node: "Node | None", step: str) -> "tuple[Node, Node] | None":
    """Return the item of a list that a step such as `0` names, in the place of both key and value."""
    number = step.strip("[]")
    if not number.isdecimal() or getattr(node, "id", "") != "sequence" or node is None:
        return None
    items = node.value
    return (items[int(number)], items[int(number)]) if int(number) < len(items) else None


def _is_mapping(node: "Node") -> bool:
    return getattr(node, "id", "") == "mapping"


def _is_inline(root: "Node | None") -> bool:
    """Return whether the document is one mapping in braces."""
    return root is not None and _is_mapping(root) and bool(getattr(root, "flow_style", False))


def _inline_mapping_depth(found: "Sequence[tuple[Node, Node]]", depth: int) -> int:
    """Return how many steps lead to the first mapping on one line (`{a: 1}`) above or at this depth; 0 if
    there is none.
    """
    for number, (_, node) in enumerate(found[:depth], 1):
        if _is_mapping(node) and getattr(node, "flow_style", False):
            return number
    return 0


def _node_to_mapping(text: str, node: "Node") -> dict[str, object]:
    import yaml

    inside = yaml.safe_load(text[node.start_mark.index : node.end_mark.index])
    return inside if isinstance(inside, dict) else {}


def _find_last_index(node: "Node", key: "Node") -> int:
    """Return the index of the last character that belongs to a value (or to its key, when it has none)."""
    while isinstance(node.value, list) and node.value and getattr(node, "flow_style", False) is False:
        last = node.value[-1]
        key, node = last if isinstance(last, tuple) else (node, last)
    end = max(node.end_mark.index, key.end_mark.index if node.start_mark.index == node.end_mark.index else 0)
    buffer = node.end_mark.buffer or ""
    while getattr(node, "style", None) in ("|", ">") and end > 0 and buffer[end - 1 : end].isspace():
        end -= 1
    return max(end - 1, 0)


def _find_colon_end(text: str, key: "Node") -> int:
    """Return the index after the colon of a key."""
    return text.index(":", key.end_mark.index) + 1


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_end(text: str, index: int) -> int:
    """Return the index after the line that `index` is on."""
    at = text.find("\n", index)
    return len(text) if at < 0 else at + 1


def _get_path(document: object, path: Sequence[str]) -> object:
    for name in path:
        assert isinstance(document, dict)
        document = document[name]
    return document


def _has_path(document: object, path: Sequence[str]) -> bool:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return False
        document = document[name]
    return True


def _set_path(document: Mapping[str, object], path: Sequence[str], value: object) -> dict[str, object]:
    """Return a copy of the document with a value at the path."""
    whole = copy.deepcopy(dict(document))
    inner: dict[str, object] = whole
    for depth, name in enumerate(path[:-1]):
        below = inner.get(name)
        if depth == 0 and name == "model" and isinstance(below, str):
            below = {"default": below}
        inner[name] = below = below if isinstance(below, dict) else {}
        inner = below
    inner[path[-1]] = value
    return whole


def _remove_path(document: Mapping[str, object], path: Sequence[str]) -> dict[str, object]:
    """Return a copy of the document without the key, and without the mappings that hold nothing then."""
    whole = copy.deepcopy(dict(document))
    for depth in range(len(path), 0, -1):
        holder = _get_path(whole, path[: depth - 1])
        assert isinstance(holder, dict)
        if depth == len(path) or holder[path[depth - 1]] == {}:
            del holder[path[depth - 1]]
        else:
            break
    return whole


def _add_items(text: str, key: str, listed: Sequence[object], fresh: Sequence[str]) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    added = [json.dumps(item, ensure_ascii=False) for item in fresh]  # a JSON string is a YAML one
    at, end = _find_block(lines, key)
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


def _find_block(lines: Sequence[str], key: str) -> tuple[int, int]:
    """Return the lines at which a top-level key begins and ends."""
    head = re.compile(rf"{re.escape(key)}\s*:")
    at = next((number for number, line in enumerate(lines) if head.match(line)), len(lines))
    return at, next((number for number in range(at + 1, len(lines)) if _is_next_key(lines[number])), len(lines))


def _is_next_key(line: str) -> bool:
    """Return whether a line begins the next key of the document's top level."""
    return bool(line.strip()) and line[0] not in " \t-#"
