"""A tool's parameters: a JSON Schema made from a function's signature, and a decoder that says how to fix a call."""

import hashlib
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from hermes.core.encoding import to_json
from hermes.i18n.messages import N_
from hermes.util.text import clean_surrogates, escape_confusable_characters

T = TypeVar("T")
Arguments = Mapping[str, object]
"""Decoded arguments by name, defaults filled in."""


_DROPPED_KEYS = ("title", "additionalProperties")
_NOISE: dict[str, tuple[object, ...]] = {"default": (None, "", [], False), "required": ([],)}
"""Parts of a schema that tell a model nothing when they have one of these values."""

_MAX_ARGUMENTS = 1_000
"""The most characters of arguments that a question shows."""


class ArgumentsError(ValueError):
    """The arguments of a call cannot be used; the text tells the model what to change."""


class ParameterSet(Protocol):
    """The parameters of a tool, whoever described it."""

    def schema(self) -> bytes:
        """Return the JSON Schema as compact bytes."""
        ...

    def decode(self, raw: str) -> dict[str, object]:
        """Return the arguments in `raw`, a call's JSON text. Raises `ArgumentsError`."""
        ...

    def call(self, function: Callable[..., T], context: object, arguments: Arguments) -> T:
        """Call the function with decoded arguments."""
        ...


class FunctionParameters:
    """The parameters of one function, its first one (the context) left out.

    A function of many parameters takes one frozen Struct instead, whose fields are the parameters.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        hints = get_type_hints(function, include_extras=True)
        signature = inspect.signature(function)
        names = tuple(signature.parameters)[1:]
        single = hints[names[0]] if len(names) == 1 else None
        self._takes_struct = isinstance(single, type) and issubclass(single, Struct)
        if self._takes_struct:
            self._struct = cast(type[Struct], single)
        else:
            fields: list[tuple[str, object] | tuple[str, object, object]] = []
            for name in names:
                kind, default = _describe_annotation(hints[name]), signature.parameters[name].default
                fields.append((name, kind) if default is inspect.Parameter.empty else (name, kind, default))
            self._struct = msgspec.defstruct(
                "Arguments", cast(list[str], fields), kw_only=True, frozen=True, forbid_unknown_fields=True
            )
        described = msgspec.structs.fields(self._struct)
        self.names = tuple(field.name for field in described)
        self.required = tuple(field.name for field in described if field.required)
        self._decoder = msgspec.json.Decoder(self._struct, strict=False)

    def schema(self) -> bytes:
        """Return the JSON Schema as compact bytes: references inlined, no titles, nothing without meaning
        for a model.
        """
        return self._encoded_schema

    @cached_property
    def _encoded_schema(self) -> bytes:
        (node,), definitions = msgspec.json.schema_components([self._struct])
        schema = _tidy_schema(_inline_reference(node, definitions), definitions)
        schema.pop("description", None)  # a Struct's own docstring, which is for who reads the code
        return to_json(schema)

    def call(self, function: Callable[..., T], context: object, arguments: Arguments) -> T:
        """Call the function with decoded arguments."""
        if self._takes_struct:
            return function(context, self._struct(**arguments))
        return function(context, **arguments)

    def decode(self, raw: str) -> dict[str, object]:
        """Return the arguments in `raw`, a call's JSON text. Raises `ArgumentsError`.

        Numbers and booleans written as strings are accepted. So are, on a second try, a null for an optional
        parameter and a list or object that was encoded twice, since models write both.
        """
        text = raw if raw.strip() else "{}"
        try:
            decoded = self._decoder.decode(text)
        except msgspec.ValidationError as error:
            return self._decode_leniently(text, error)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            joined = join_surrogates(text)
            if joined is None:
                raise ArgumentsError(describe_json_error(error)) from None
            return self.decode(joined)
        return self._to_dict(decoded)

    def _to_dict(self, decoded: Struct) -> dict[str, object]:
        return {name: getattr(decoded, name) for name in self.names}

    def _decode_leniently(self, text: str, error: msgspec.ValidationError) -> dict[str, object]:
        try:
            found = msgspec.json.decode(text)
        except (msgspec.MsgspecError, RecursionError) as wrong:  # a number that nothing can hold, or too deep
            raise ArgumentsError(describe_json_error(wrong)) from None
        if not isinstance(found, dict):
            raise ArgumentsError("The arguments must be one JSON object.") from None
        self._check_names(found)
        present = {name: value for name, value in found.items() if value is not None}
        for candidate in (present, {name: _decode_nested(value) for name, value in present.items()}):
            try:
                return self._to_dict(msgspec.convert(candidate, self._struct, strict=False))
            except msgspec.ValidationError as again:
                error = again
        raise ArgumentsError(f"{error}. Correct that argument and call again.") from None

    def _check_names(self, found: Mapping[str, object]) -> None:
        unknown = [name for name in found if name not in self.names]
        missing = [name for name in self.required if found.get(name) is None]
        if not unknown and not missing:
            return
        said = []
        if missing:
            said.append("Missing: " + ", ".join(missing) + ".")
        if unknown:
            said.append("Unknown: " + ", ".join(name[:60] for name in unknown[:8]) + ".")
        said += [self._format_parameters(), "Call again with these names."]
        raise ArgumentsError(" ".join(said))

    def _format_parameters(self) -> str:
        takes = ", ".join(name if name in self.required else f"{name} (optional)" for name in self.names)
        return f"The parameters are: {takes or 'none'}."


_CACHE: dict[Hashable, FunctionParameters] = {}
_MAX_CACHED = 512


def parameters_from_function(function: Callable[..., object]) -> FunctionParameters:
    """Return the parameters of a function, made once for all functions of the same text and signature.

    A tool that is bound to a session is a function that is defined again for each; its parameters stay the same.
    """
    code = getattr(function, "__code__", None)
    named = getattr(function, "__kwdefaults__", None) or {}
    defaults = getattr(function, "__defaults__", None)
    key = (function.__module__, code, defaults, *named.items(), *function.__annotations__.items())
    try:
        known = _CACHE.get(key)
    except TypeError:  # a default or an annotation that cannot be compared
        return FunctionParameters(function)
    if known is None:
        known = FunctionParameters(function)
        if len(_CACHE) < _MAX_CACHED:
            _CACHE[key] = known
    return known


def describe_json_error(error: Exception) -> str:
    """Return for the model what is wrong with JSON text that cannot be decoded. Text that was cut off is never
    completed.
    """
    if isinstance(error, RecursionError):
        return "The arguments are nested too deeply. Send the call again with less nesting."
    if "truncated" in str(error):
        return "The arguments are cut off before their end. Send the whole call again, in smaller pieces if it is long."
    return f"The arguments are not valid JSON ({error}). Send the call again with valid JSON."


def join_surrogates(raw: str) -> str | None:
    """Return `raw` with escaped or bare surrogates joined or replaced, or None when that is not what is wrong with it.

    msgspec calls a lone surrogate "truncated", which must not be taken for arguments that were cut off.
    """
    if "\\ud" not in raw.lower() and raw.isascii():
        return None
    import json

    try:
        text = json.dumps(json.loads(raw), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    cleaned = clean_surrogates(text)
    return cleaned if cleaned != raw else None


def _describe_annotation(hint: object) -> object:
    """Return `Annotated[T, "text"]` with the text as msgspec's description."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *notes = get_args(hint)
    metas = [Meta(description=note) if isinstance(note, str) else note for note in notes]
    return Annotated[(kind, *metas)]


def _inline_reference(node: object, definitions: Mapping[str, object]) -> dict[str, object]:
    """Return a schema with its own reference replaced by what it refers to; a Struct's
    docstring is not for the model.
    """
    schema = dict(cast(Mapping[str, object], node))
    reference = schema.pop("$ref", None)
    if reference is None:
        return schema
    meant = dict(cast(Mapping[str, object], definitions[str(reference).rpartition("/")[2]]))
    meant.pop("description", None)
    return {**meant, **schema}


def _tidy_schema(node: object, definitions: Mapping[str, object]) -> dict[str, object]:
    """Return a schema without references, titles and defaults that tell nothing; `T | None` becomes `T`."""
    schema = _inline_reference(node, definitions)
    choices = [choice for choice in cast(list[object], schema.pop("anyOf", [])) if choice != {"type": "null"}]
    if len(choices) == 1:
        return _tidy_schema({**_inline_reference(choices[0], definitions), **schema}, definitions)
    if choices:
        schema["anyOf"] = [_tidy_schema(choice, definitions) for choice in choices]
    schema = _strip_noise(schema)
    if "enum" in schema:
        schema = {"type": "string", **schema}
    schema.update({"items": _tidy_schema(schema["items"], definitions)} if "items" in schema else {})
    properties = cast(Mapping[str, object], schema.get("properties", {}))
    if properties:
        schema["properties"] = {name: _tidy_schema(value, definitions) for name, value in properties.items()}
    return schema


def _strip_noise(schema: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value for name, value in schema.items() if name not in _DROPPED_KEYS and value not in _NOISE.get(name, ())
    }


def format_arguments(arguments: Arguments) -> str:
    """Format the arguments as JSON. Never raises."""
    try:
        return to_json(dict(arguments)).decode()
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError):
        return "(arguments that cannot be shown)"


def format_for_question(arguments: Arguments) -> str:
    """Format the arguments for a question; of long ones the beginning, and a digest of all, which binds the answer to
    them.
    """
    text = escape_confusable_characters(format_arguments(arguments))
    if len(text) <= _MAX_ARGUMENTS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return N_(
        "{text} [... {MAX_ARGUMENTS} characters more, sha256 {digest}]",
        text=text[:_MAX_ARGUMENTS],
        MAX_ARGUMENTS=len(text) - _MAX_ARGUMENTS,
        digest=digest,
    )


class ExternalParameters:
    """Parameters that a schema from elsewhere describes; its author checks them, and here missing ones are reported."""

    def __init__(self, schema: bytes, required: Sequence[str], hint: str = "") -> None:
        self._schema = schema
        self._required = tuple(required)
        self._hint = hint

    def schema(self) -> bytes:
        """Return the schema as it was sent."""
        return self._schema

    def decode(self, raw: str) -> dict[str, object]:
        """Decode the arguments in a call's JSON text. Raises `ArgumentsError`."""
        text = raw if raw.strip() else "{}"
        try:
            found = msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
            joined = join_surrogates(text)
            if joined is None:
                raise ArgumentsError(describe_json_error(error)) from None
            return self.decode(joined)
        if not isinstance(found, dict):
            raise ArgumentsError("The arguments must be one JSON object.")
        missing = [name for name in self._required if name not in found]
        if missing:
            raise ArgumentsError(f"Missing: {', '.join(missing[:8])}. {self._hint}".rstrip())
        return found

    def call(self, function: Callable[..., T], context: object, arguments: Arguments) -> T:
        """Call the function with all arguments as one mapping."""
        return function(context, arguments)


def _decode_nested(value: object) -> object:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return cast(object, msgspec.json.decode(value))
        except msgspec.DecodeError:
            return value
    return value
