"""A finished English text that remembers the template and the values it was made from.

Errors, notices and reasons are kept, logged and given to models and programs in English. Such a text is an ordinary
string to all of them; where a person is shown one, `hermes.i18n.messages.localize` fills the translated template with
the same values. A value can be such a text itself, so that reasons that were joined are translated whole.
"""

from collections.abc import Callable, Iterable, Mapping

Value = str | int | float


class Localizable(str):
    """An English text with its template (`"{path} is gone."`) and the values of its places.

    Cutting, joining with `+` and formatting make a plain string of it, which is shown as it is; `str()` does not.
    """

    __slots__ = ("template", "values")
    template: str
    values: Mapping[str, Value]

    def __new__(cls, text: str, template: str, values: Mapping[str, Value]) -> "Localizable":
        """Return `text`, which remembers the template and the values."""
        made = super().__new__(cls, text)
        made.template = template
        made.values = values
        return made

    def __str__(self) -> str:
        return self

    @property
    def plain(self) -> str:
        """The English text alone."""
        return super().__str__()


def fill_template(template: str, values: Mapping[str, object]) -> Localizable:
    """Fill the places of a template. A value that is no text and no number is taken as its text."""
    kept = {name: value if isinstance(value, str | int | float) else str(value) for name, value in values.items()}
    return Localizable(template.format(**values), template, kept)


def join_localizable(separator: str, texts: Iterable[str]) -> str:
    """Join the texts that are not empty so that each stays translatable.

    The catalogue holds `{first_said}SEPARATOR{second_said}`. Neighbours are joined in pairs, so that a thousand texts
    are ten levels deep.
    """
    template = f"{{first_said}}{separator}{{second_said}}"
    joined = [text for text in texts if text]
    while len(joined) > 1:
        pairs = [joined[at : at + 2] for at in range(0, len(joined), 2)]
        joined = [
            fill_template(template, {"first_said": pair[0], "second_said": pair[1]}) if len(pair) == 2 else pair[0]
            for pair in pairs
        ]
    return joined[0] if joined else ""


_MAX_DEPTH = 100
"""The most texts within texts of a wording that is read; more of them are not made here."""


def change_text(text: str, change: Callable[[str], str]) -> str:
    """Return the changed text, escaped for example; of a message its values are changed too, and its template stays."""
    if not isinstance(text, Localizable):
        return change(text)
    values = {name: change_text(one, change) if isinstance(one, str) else one for name, one in text.values.items()}
    return Localizable(change(text.plain), text.template, values)


def get_wording(text: Localizable) -> list[object]:
    """Return what is sent and stored of a text, as JSON takes it: its English, its template and its values."""
    values = {name: get_wording(one) if isinstance(one, Localizable) else one for name, one in text.values.items()}
    return [text.plain, text.template, values]


def restore_wording(wording: object, depth: int = 0) -> Localizable:
    """Return the text that was sent or stored. Its own template is never filled: only the catalogue's are.

    Raises ValueError for what `get_wording` does not return.
    """
    match wording:
        case [str(text), str(template), dict(sent)] if depth <= _MAX_DEPTH:
            values = {
                str(name): restore_wording(one, depth + 1) if isinstance(one, list) else one
                for name, one in sent.items()
            }
            if all(isinstance(one, str | int | float) for one in values.values()):
                return Localizable(text, template, values)
    raise ValueError("this is no wording of a message")


_SEPARATOR = "\x1e"
"""Stands between the English text of a stored message and its wording; it is taken out of what is stored."""


def pack_message(text: str) -> str:
    """Return a message as a column of the store takes it: its English, and behind it its wording where it has one."""
    if _SEPARATOR in text:
        text = change_text(text, lambda part: part.replace(_SEPARATOR, ""))
    if not isinstance(text, Localizable):
        return text
    import json

    return text.plain + _SEPARATOR + json.dumps(get_wording(text), ensure_ascii=False, separators=(",", ":"))


def unpack_message(stored: str) -> str:
    """Return a stored message; one of an earlier version, which has no wording, is returned as it is."""
    text, _, wording = stored.partition(_SEPARATOR)
    if not wording:
        return stored
    import json

    try:
        restored = restore_wording(json.loads(wording))
    except (ValueError, RecursionError):
        return text
    return restored if restored.plain == text else text
