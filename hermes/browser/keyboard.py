"""Keys: their names, chords of them, and text as somebody would type it.

Source of codes: UI Events KeyboardEvent code values, and the virtual key codes of Windows that browsers report.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from hermes.browser.settling import act
from hermes.browser.tab import INPUT_SECONDS, Tab
from hermes.core.errors import BrowserError

_ALT, _CONTROL, _META, _SHIFT = 1, 2, 4, 8
_MODIFIERS: Mapping[str, tuple[int, str, int]] = {
    "Alt": (_ALT, "AltLeft", 18),
    "Control": (_CONTROL, "ControlLeft", 17),
    "Meta": (_META, "MetaLeft", 91),
    "Shift": (_SHIFT, "ShiftLeft", 16),
}
_ALIASES: Mapping[str, str] = {
    "cmd": "Meta",
    "command": "Meta",
    "ctrl": "Control",
    "del": "Delete",
    "down": "ArrowDown",
    "esc": "Escape",
    "left": "ArrowLeft",
    "option": "Alt",
    "pgdn": "PageDown",
    "pgup": "PageUp",
    "return": "Enter",
    "right": "ArrowRight",
    "spacebar": "Space",
    "up": "ArrowUp",
    "win": "Meta",
}
_CODES: Mapping[str, int] = {
    "ArrowDown": 40,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "ArrowUp": 38,
    "Backspace": 8,
    "CapsLock": 20,
    "ContextMenu": 93,
    "Delete": 46,
    "End": 35,
    "Enter": 13,
    "Escape": 27,
    "Home": 36,
    "Insert": 45,
    "PageDown": 34,
    "PageUp": 33,
    "Pause": 19,
    "Space": 32,
    "Tab": 9,
    **{f"F{number}": 111 + number for number in range(1, 13)},
}
_BY_FOLDED = {name.lower(): name for name in (*_CODES, *_MODIFIERS)}
_TEXTS = {"Enter": "\r", "Space": " "}
_COMMANDS = {"a": "selectAll", "c": "copy", "v": "paste", "x": "cut", "y": "redo", "z": "undo"}
"""What Control and a letter do in a field."""
_MAX_TYPED = 120
"""The characters that are typed key by key; of a longer text only the last one is, the rest is put in at once."""


class Key(Struct, frozen=True):
    """A key as events name it. `text` is what it writes."""

    key: str
    code: str
    number: int
    text: str = ""


def find_key(name: str) -> Key:
    """Return a key by its name, or by the one character that it writes. Raises BrowserError for none."""
    if len(name) == 1:
        return _find_character(name)
    known = _ALIASES.get(name.lower()) or _BY_FOLDED.get(name.lower(), "")
    if known in _MODIFIERS:
        return Key(known, _MODIFIERS[known][1], _MODIFIERS[known][2])
    if known not in _CODES:
        raise BrowserError(
            f"There is no key {name[:40]!r}. Keys are single characters and names like Enter, Tab, Escape, ArrowDown; "
            f"chords are like Control+a."
        )
    key = " " if known == "Space" else known
    return Key(key, known, _CODES[known], _TEXTS.get(known, ""))


def _find_character(character: str) -> Key:
    if character.isascii() and character.isalpha():
        return Key(character, f"Key{character.upper()}", ord(character.upper()), character)
    if character.isascii() and character.isdigit():
        return Key(character, f"Digit{character}", ord(character), character)
    if character == " ":
        return Key(" ", "Space", 32, " ")
    return Key(character, "", 0, character)


def read_chord(text: str) -> tuple[tuple[Key, ...], Key]:
    """Return the modifiers and the key of a chord such as `Control+Shift+k`. Raises BrowserError for what is none."""
    *names, last = text.strip().split("+") if len(text.strip()) > 1 else [text.strip() or " "]
    if not last and names:
        last = "+"
        names = [name for name in names if name]
    held = tuple(map(find_key, names))
    if unknown := next((one.key for one in held if one.key not in _MODIFIERS), ""):
        raise BrowserError(f"{unknown} cannot be held: Control, Shift, Alt and Meta can.")
    return held, find_key(last)


async def press_chord(tab: Tab, text: str) -> None:
    """Press keys at what has the focus, and wait for what follows. Raises BrowserError."""
    held, key = read_chord(text)
    await act(tab, _press(tab, held, key))


async def _press(tab: Tab, held: tuple[Key, ...], key: Key) -> None:
    modifiers = 0
    events: list[dict[str, object]] = []
    for one in held:
        modifiers |= _MODIFIERS[one.key][0]
        events.append(_describe_key("rawKeyDown", one, modifiers))
    writes = not modifiers & (_ALT | _CONTROL | _META)
    if modifiers & _SHIFT and key.text.isalpha():
        key = find_key(key.text.upper())
    down = _describe_key("keyDown" if writes and key.text else "rawKeyDown", key, modifiers)
    if writes and key.text:
        down["text"] = down["unmodifiedText"] = key.text
    if modifiers in (_CONTROL, _META) and key.key.lower() in _COMMANDS:
        down["commands"] = [_COMMANDS[key.key.lower()]]
    events += [down, _describe_key("keyUp", key, modifiers)]
    for one in reversed(held):
        modifiers &= ~_MODIFIERS[one.key][0]
        events.append(_describe_key("keyUp", one, modifiers))
    await _send_keys(tab, events)


async def write_text(tab: Tab, text: str) -> None:
    """Write text where the focus is: short lines with the events of each key, since some fields listen to these."""
    by_keys = text if len(text) <= _MAX_TYPED and "\n" not in text else text[-1:].replace("\n", "")
    at_once = text[: len(text) - len(by_keys)]
    if at_once:
        await tab.session.call("Input.insertText", {"text": at_once})
    for begin in range(0, len(by_keys), 40):
        events: list[dict[str, object]] = []
        for character in by_keys[begin : begin + 40]:
            key = _find_character(character)
            down = _describe_key("keyDown", key, _SHIFT if character.isupper() else 0)
            events += [{**down, "text": character, "unmodifiedText": character}, _describe_key("keyUp", key, 0)]
        await _send_keys(tab, events)


async def press_key(tab: Tab, name: str) -> None:
    """Press one key, and wait for nothing more than that the page has taken it."""
    await _press(tab, (), find_key(name))


def _describe_key(kind: str, key: Key, modifiers: int) -> dict[str, object]:
    return {
        "type": kind,
        "key": key.key,
        "code": key.code,
        "windowsVirtualKeyCode": key.number,
        "nativeVirtualKeyCode": key.number,
        "modifiers": modifiers,
    }


async def _send_keys(tab: Tab, events: list[dict[str, object]]) -> None:
    """Send events in order; the browser takes them one after another."""
    await asyncio.gather(*(tab.session.call("Input.dispatchKeyEvent", one, seconds=INPUT_SECONDS) for one in events))
