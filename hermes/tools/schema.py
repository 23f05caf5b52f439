"""A tool's parameters: a JSON Schema made from a function's signature, and a decoder that says how to mend a call."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from hermes.util.text import clean_surrogates

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
Arguments = Mapping[str, object]
"""Decoded arguments by name, defaults filled in."""


class ArgumentsError(ValueError):
    """The arguments of a call cannot be used; the text tells the model what to change."""


class Parameters:
    """The parameters of one function, its first one (the context) left out."""

    def __init__(self, function: Callable[..., object]) -> None:
        hints = get_type_hints(function, include_extras=True)
        self.names: tuple[str, ...] = tuple(inspect.signature(function).parameters)[1:]
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        self.required = tuple(name for name in self.names if name not in defaults)
        fields: list[tuple[str, object] | tuple[str, object, object]] = []
        for name in self.names:
            kind = _described(hints[name])
            fields.append((name, kind, defaults[name]) if name in defaults else (name, kind))
        self._struct = cast(
            type[Struct],
            msgspec.defstruct("Arguments", cast(list[str], fields), kw_only=True, frozen=True, forbid_unknown_fields=True),
        )
        self._decoder = msgspec.json.Decoder(self._struct, strict=False)

    def schema(self) -> bytes:
        """The JSON Schema as compact bytes: references inlined, no titles, nothing that says nothing."""
        (node,), definitions = msgspec.json.schema_components([self._struct])
        return msgspec.json.encode(_tidy(node, definitions))

    def decode(self, raw: str) -> dict[str, object]:
        """The arguments in `raw`, a call's JSON text. Raises `ArgumentsError`.

        Numbers and booleans written as strings are taken. So are, on a second look, a null for an optional parameter
        and a list or object that was encoded twice, since models write both.
        """
        text = raw if raw.strip() else "{}"
        try:
            decoded = self._decoder.decode(text)
        except msgspec.ValidationError as error:
            return self._second_look(text, error)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            joined = join_surrogates(text)
            if joined is None:
                raise ArgumentsError(_broken(raw, error)) from None
            return self.decode(joined)
        return self._as_dict(decoded)

    def _as_dict(self, decoded: Struct) -> dict[str, object]:
        return {name: getattr(decoded, name) for name in self.names}

    def _second_look(self, text: str, error: msgspec.ValidationError) -> dict[str, object]:
        found = msgspec.json.decode(text)
        if not isinstance(found, dict):
            raise ArgumentsError(f"The arguments must be one JSON object, not {_kind(found)}.") from None
        unknown = [name for name in found if name not in self.names]
        missing = [name for name in self.required if found.get(name) is None]
        if unknown or missing:
            raise ArgumentsError(self._names_wrong(unknown, missing)) from None
        mended = {name: _decoded_twice(value) for name, value in found.items() if value is not None}
        for candidate in ({name: found[name] for name in mended}, mended):
            try:
                return self._as_dict(msgspec.convert(candidate, self._struct, strict=False))
            except msgspec.ValidationError as again:
                error = again
        raise ArgumentsError(f"{error}. Correct that argument and call again.") from None

    def _names_wrong(self, unknown: Sequence[str], missing: Sequence[str]) -> str:
        said = []
        if missing:
            said.append("Missing: " + ", ".join(missing) + ".")
        if unknown:
            said.append("Unknown: " + ", ".join(name[:60] for name in unknown[:8]) + ".")
        takes = ", ".join(name if name in self.required else f"{name} (optional)" for name in self.names)
        return f"{' '.join(said)} The parameters are: {takes or 'none'}. Call again with these names."


def join_surrogates(raw: str) -> str | None:
    """`raw` with escaped or bare surrogates joined or replaced; None when that is not what is wrong with it.

    msgspec calls a lone surrogate "truncated", which must not be taken for arguments that were cut off.
    """
    if "\\ud" not in raw.lower() and raw.isascii():
        return None
    import json

    try:
        text = json.dumps(json.loads(raw), ensure_ascii=False)
    except ValueError:
        return None
    cleaned = clean_surrogates(text)
    return cleaned if cleaned != raw else None


def _described(hint: object) -> object:
    """`Annotated[T, "text"]` with the text as msgspec's description."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *notes = get_args(hint)
    metas = [Meta(description=note) if isinstance(note, str) else note for note in notes]
    return Annotated.__class_getitem__((kind, *metas))  # type: ignore[attr-defined]


def _tidy(node: object, definitions: Mapping[str, object]) -> object:
    if isinstance(node, list):
        return [_tidy(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[str(node["$ref"]).rpartition("/")[2]]
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _tidy({**cast(dict[str, object], target), **rest}, definitions)
    kept = {
        key: value
        for key, value in node.items()
        if not (key == "title" or (key == "default" and value in (None, "", [], False)) or (key == "required" and not value))
    }
    if "properties" in kept:
        properties = cast(dict[str, object], kept["properties"])
        kept["properties"] = {name: _tidy(value, definitions) for name, value in properties.items()}
        kept.pop("additionalProperties", None)
        return kept
    if all(isinstance(value, str) for value in cast(list[object], kept.get("enum", [1]))):
        kept = {"type": "string", **kept}
    choices = kept.get("anyOf")
    if isinstance(choices, list):
        real = [choice for choice in choices if choice != {"type": "null"}]
        if len(real) == 1:
            del kept["anyOf"]
            return _tidy({**real[0], **kept}, definitions)
    return {key: _tidy(value, definitions) if key in ("items", "anyOf") else value for key, value in kept.items()}


def _decoded_twice(value: object) -> object:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return cast(object, msgspec.json.decode(value))
        except msgspec.DecodeError:
            return value
    return value


def _kind(value: object) -> str:
    names = {str: "a string", list: "a list", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "something else")


def _broken(raw: str, error: Exception) -> str:
    cut = "truncated" in str(error) or "unexpected end" in str(error).lower()
    if cut:
        return "The arguments are cut off before their end. Nothing was done. Send the whole call again, in smaller pieces if it is long."
    return f"The arguments are not valid JSON ({error}). Nothing was done. Send the call again with valid JSON."
