"""What an epoch changes in messages as they are sent, because a provider refused them as they were.

Pure functions of a message and the epoch's rewrites, so that a restored epoch sends the same bytes again.
"""

from collections.abc import Sequence

import msgspec
from msgspec import structs

from hermes.core.frame import Rewrite, ToolSchema
from hermes.core.messages import PROGRAM, Message
from hermes.core.parts import ImagePart, Part, ReasoningPart, TextPart, ToolResultPart

_PATTERNS = ("pattern", "format", "patternProperties")
_LEFT_OUT = "[A picture stood here ({media_type}); this model's provider does not take it.]"


def rewritten(message: Message, rewrites: Sequence[Rewrite], *, carried: bool) -> Message:
    """The message as this epoch sends it. `carried` says that it was written before the epoch began."""
    parts = message.parts
    if Rewrite.NO_REASONING in rewrites and carried:
        parts = tuple(part for part in parts if not isinstance(part, ReasoningPart))
    if Rewrite.TEXT_RESULTS in rewrites:
        parts = tuple(_in_words(part) if isinstance(part, ToolResultPart) else part for part in parts)
    if Rewrite.SMALL_IMAGES in rewrites:
        parts = tuple(_small(part) for part in parts)
    return message if parts == message.parts else structs.replace(message, parts=parts)


def plain_schemas(tools: Sequence[ToolSchema]) -> tuple[ToolSchema, ...]:
    """The tools without what some servers cannot turn into a grammar; arguments are checked here all the same."""
    return tuple(
        structs.replace(tool, parameters=msgspec.json.encode(_plain(msgspec.json.decode(tool.parameters))))
        for tool in tools
    )


def _plain(schema: object) -> object:
    if isinstance(schema, dict):
        properties = schema.get("properties")
        kept = {key: _plain(value) for key, value in schema.items() if key not in _PATTERNS and key != "properties"}
        if isinstance(properties, dict):  # a property may be called `pattern`
            kept["properties"] = {name: _plain(value) for name, value in properties.items()}
        return {key: kept[key] for key in schema if key in kept}
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    return schema


def _in_words(result: ToolResultPart) -> ToolResultPart:
    if not result.images:
        return result
    notes = [_LEFT_OUT.format(media_type=image.media_type) for image in result.images]
    return structs.replace(result, images=(), text="\n".join([result.text, *notes]).strip("\n"))


def _small(part: Part) -> Part:
    if isinstance(part, ImagePart) and part.data:
        return TextPart(text=_LEFT_OUT.format(media_type=part.media_type), provenance=PROGRAM)
    if isinstance(part, ToolResultPart):
        return _in_words(part)
    return part
