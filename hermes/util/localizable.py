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

    The catalogue holds `{first_said}SEPARATOR{second_said}`.
    """
    joined, template = "", f"{{first_said}}{separator}{{second_said}}"
    for text in filter(None, texts):
        joined = fill_template(template, {"first_said": joined, "second_said": text}) if joined else text
    return joined


def change_text(text: str, change: Callable[[str], str]) -> str:
    """Return the changed text, escaped for example; of a message its values are changed too, and its template stays."""
    if not isinstance(text, Localizable):
        return change(text)
    values = {name: change_text(one, change) if isinstance(one, str) else one for name, one in text.values.items()}
    changed = change(text)
    return text if changed is text else Localizable(changed, text.template, values)


def get_wording(text: Localizable) -> list[object]:
    """Return what is sent and stored of a text, as JSON takes it: its English, its template and its values."""
    values = {name: get_wording(one) if isinstance(one, Localizable) else one for name, one in text.values.items()}
    return [text.plain, text.template, values]


def restore_wording(wording: object) -> Localizable:
    """Return the text that was sent or stored. Its own template is never filled: only the catalogue's are.

    Raises ValueError for what `get_wording` does not return.
    """
    match wording:
        case [str(text), str(template), dict(sent)]:
            values = {str(name): restore_wording(one) if isinstance(one, list) else one for name, one in sent.items()}
            if all(isinstance(one, str | int | float) for one in values.values()):
                return Localizable(text, template, values)
    raise ValueError("this is no wording of a message")


_SEPARATOR = "\x1e"
"""Stands between the English text of a stored message and its wording; no message has this control character."""


def pack_message(text: str) -> str:
    """Return a message as a column of the store takes it: its English, and behind it its wording where it has one."""
    if not isinstance(text, Localizable):
        return text
    import json

    return text + _SEPARATOR + json.dumps(get_wording(text), ensure_ascii=False, separators=(",", ":"))


def unpack_message(stored: str) -> str:
    """Return a stored message; one of an earlier version, which has no wording, is returned as it is."""
    text, _, wording = stored.partition(_SEPARATOR)
    if not wording:
        return stored
    import json

    try:
        return restore_wording(json.loads(wording))
    except ValueError:
        return text
