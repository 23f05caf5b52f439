"""The keys of the full-screen chat: its actions, their keys, and keys of a person's own (`display.keys`).

A key is written as `ctrl-o`, `alt-t`, `f2` or `shift-tab`; keys that are pressed one after the other with a space
between them, other keys for the same action behind a comma. `off` takes the keys away.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes.core.errors import UsageError
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name
from hermes.util.localizable import join_localizable

KeySequence = tuple[str, ...]
"""Keys that are pressed one after the other, by the names that prompt_toolkit gives them."""


class KeyAction(Struct, frozen=True):
    """Something that a key does in the chat."""

    keys: str
    """The default keys, as a person would write them."""
    about: str


ACTIONS: Mapping[str, KeyAction] = {
    "newline": KeyAction("ctrl-j", N_("a new line")),
    "later": KeyAction("alt-enter", N_("while a turn runs, send for afterwards; else a new line")),
    "waiting": KeyAction("alt-up", N_("take the newest waiting message back into the line")),
    "stop": KeyAction("ctrl-c", N_("stop the turn, twice at once; else clear the line; else, twice, leave")),
    "back": KeyAction("esc", N_("stop the turn; at an empty line, twice: go back to an earlier message")),
    "mode": KeyAction("shift-tab", N_("change the mode: ask, plan, auto")),
    "background": KeyAction("ctrl-b", N_("let the running command go on in the background")),
    "model": KeyAction("alt-m", N_("change to the next favourite model")),
    "leave": KeyAction("ctrl-d", N_("leave, at an empty line")),
    "unfold": KeyAction("ctrl-o", N_("show the newest result in full, and again the one before")),
    "plan": KeyAction("ctrl-t", N_("hide or show the plan")),
    "reasoning": KeyAction("alt-t", N_("show the model's last reasoning")),
    "edit": KeyAction("ctrl-x ctrl-e, ctrl-g", N_("write in your editor")),
    "picture": KeyAction("ctrl-v", N_("attach the picture in the clipboard")),
    "clear": KeyAction("ctrl-l", N_("clear the screen")),
    "suspend": KeyAction("ctrl-z", N_("back to the shell; `fg` returns")),
}
"""What the chat's keys do. An action is bound to its keys by its name here (`hermes.cli.tui.screen`)."""

_NAMED = {
    "esc": "escape",
    "escape": "escape",
    "tab": "tab",
    "shift-tab": "s-tab",
    "space": "space",
    "enter": "enter",
    "up": "up",
    "down": "down",
    "left": "left",
    "right": "right",
    "home": "home",
    "end": "end",
    "pageup": "pageup",
    "pagedown": "pagedown",
    "insert": "insert",
    "delete": "delete",
    "backspace": "backspace",
    **{f"f{number}": f"f{number}" for number in range(1, 25)},
}
_TYPED = frozenset({"space", "enter", "tab", "backspace", "up", "down", "left", "right", "home", "end", "delete"})
"""Keys that write and move in the line: alone they cannot do something else."""
_CONTROL = re.compile(r"(?:ctrl|c)-([a-z\\\]^_@])")
_ALT = re.compile(r"(?:alt|meta|m|a)-(.+)")


def parse_keys(settings: Mapping[str, str]) -> dict[str, tuple[KeySequence, ...]]:
    """Return the keys of every action, those of the person in the place of the defaults.

    Raises UsageError for an unknown action or key, and for a key of two actions.
    """
    for name in settings:
        if name not in ACTIONS:
            what = N_("There is no action {name!r} for a key.", name=name)
            known = N_("Actions: {known}.", known=", ".join(ACTIONS))
            raise UsageError(what, join_localizable(" ", (suggest_name(name, ACTIONS), known)))
    found = {name: _parse_setting(name, settings.get(name, one.keys)) for name, one in ACTIONS.items()}
    owners: dict[KeySequence, str] = {}
    for name in sorted(found, key=lambda one: one in settings):
        for keys in found[name]:
            if (other := owners.setdefault(keys, name)) != name:
                what = N_(
                    "One key does two things: {key} is {first!r} and {second!r}.",
                    key=format_keys(keys),
                    first=other,
                    second=name,
                )
                raise UsageError(what, N_("Give one of them another key in display.keys."))
    return found


def format_keys(keys: KeySequence) -> str:
    """Format a key for a person: `Ctrl-X Ctrl-E`."""
    parts: list[str] = []
    for key in keys:
        if parts and parts[-1] == "Esc" and len(keys) > 1:
            parts[-1] = f"Alt-{_format_key(key)}"
        else:
            parts.append(_format_key(key))
    return " ".join(parts)


def format_action_keys(keys: Sequence[KeySequence]) -> str:
    """Format all keys of an action."""
    return ", ".join(map(format_keys, keys))


def _parse_setting(action: str, text: str) -> tuple[KeySequence, ...]:
    if text.strip().lower() in ("off", "none", ""):
        return ()
    return tuple(_parse_sequence(action, part) for part in text.split(","))


def _parse_sequence(action: str, text: str) -> KeySequence:
    keys: list[str] = []
    for word in text.lower().split():
        keys += _parse_key(action, word)
    if not keys or keys[0] in _TYPED or (len(keys) == 1 and len(keys[0]) == 1):
        raise UsageError(
            N_("{key!r} cannot be the key of {action!r}: it is for writing.", key=text.strip(), action=action),
            N_("Take one with ctrl- or alt-, or f1 to f24."),
        )
    return tuple(keys)


def _parse_key(action: str, word: str) -> KeySequence:
    """Return a key by prompt_toolkit's names; Alt is Esc and the key behind it."""
    if match := _CONTROL.fullmatch(word):
        return (f"c-{match[1]}",)
    if match := _ALT.fullmatch(word):
        return ("escape", *_parse_key(action, match[1]))
    if word in _NAMED:
        return (_NAMED[word],)
    if len(word) == 1 and word.isprintable():
        return (word,)
    raise UsageError(
        N_("{key!r} is not a key ({action!r} in display.keys).", key=word, action=action),
        N_("Keys are written as ctrl-o, alt-t, f2, shift-tab or ctrl-x ctrl-e."),
    )


def _format_key(key: str) -> str:
    if key.startswith("c-"):
        return f"Ctrl-{key[2:].upper()}"
    if key.startswith("s-"):
        return f"Shift-{key[2:].capitalize()}"
    return {"escape": "Esc"}.get(key, key.capitalize() if len(key) > 1 else key.upper())
