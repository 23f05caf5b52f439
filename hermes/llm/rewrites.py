"""Rewrites messages as they are sent in an epoch, because a provider refused them as they were.

Pure functions of a message and the epoch's rewrites, so that a restored epoch sends the same bytes again.
"""

from collections.abc import Sequence

import msgspec
from msgspec import structs

from hermes.core.frame import Rewrite, ToolSchema
from hermes.core.messages import PROGRAM, Message
from hermes.core.parts import ImagePart, Part, ReasoningPart, TextPart, ToolResultPart

_PATTERN_KEYS = ("pattern", "format", "patternProperties")
_IMAGE_NOTE = "[A picture stood here ({media_type}); this model's provider does not take it.]"


def rewrite_message(message: Message, rewrites: Sequence[Rewrite], *, carried: bool) -> Message:
    """Return the message as this epoch sends it. `carried` says that it was written before the epoch began."""
    parts = message.parts
    if Rewrite.NO_REASONING in rewrites and carried:
        parts = tuple(part for part in parts if not isinstance(part, ReasoningPart))
    if Rewrite.TEXT_RESULTS in rewrites:
        parts = tuple(_replace_images(part) if isinstance(part, ToolResultPart) else part for part in parts)
    if Rewrite.SMALL_IMAGES in rewrites:
        parts = tuple(_drop_image(part) for part in parts)
    return message if parts == message.parts else structs.replace(message, parts=parts)


def simplify_schemas(tools: Sequence[ToolSchema]) -> tuple[ToolSchema, ...]:
    """Return the tools without what some servers cannot turn into a grammar; arguments
    are checked here all the same.
    """
    return tuple(
        structs.replace(tool, parameters=msgspec.json.encode(_simplify_schema(msgspec.json.decode(tool.parameters))))
        for tool in tools
    )


def _simplify_schema(schema: object) -> object:
    if isinstance(schema, dict):
        properties = schema.get("properties")
        kept = {
            key: _simplify_schema(value)
            for key, value in schema.items()
            if key not in _PATTERN_KEYS and key != "properties"
        }
        if isinstance(properties, dict):  # a property may be called `pattern`
            kept["properties"] = {name: _simplify_schema(value) for name, value in properties.items()}
        return {key: kept[key] for key in schema if key in kept}
    if isinstance(schema, list):
        return [_simplify_schema(item) for item in schema]
    return schema


def _replace_images(result: ToolResultPart) -> ToolResultPart:
    if not result.images:
        return result
    notes = [_IMAGE_NOTE.format(media_type=image.media_type) for image in result.images]
    return structs.replace(result, images=(), text="\n".join([result.text, *notes]).strip("\n"))


def _drop_image(part: Part) -> Part:
    if isinstance(part, ImagePart) and part.data:
        return TextPart(text=_IMAGE_NOTE.format(media_type=part.media_type), provenance=PROGRAM)
    if isinstance(part, ToolResultPart):
        return _replace_images(part)
    return part
