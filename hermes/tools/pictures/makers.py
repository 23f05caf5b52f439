"""The records of the services that make pictures (`image_gen.provider`). Keys come from the environment or `.env`.

Sources: the openai client 3.52 (types of /images/generations and /images/edits); fal-client 1.0 and
https://fal.ai/docs/model-api-reference/image-generation-api/nano-banana; https://openrouter.ai/docs, Image Generation.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.plugins import suggest_name
from hermes.providers.wire import find_by_name

AspectRatio = Literal["landscape", "square", "portrait"]
_RATIOS = {"landscape": "16:9", "square": "1:1", "portrait": "9:16"}


class RatioField(Struct, frozen=True):
    """The field of a request that says the form of a picture, and its values."""

    name: str
    values: Mapping[str, str]


class PictureMaker(Struct, frozen=True, kw_only=True):
    """A service that makes pictures, and how it is asked."""

    title: str
    wire: Literal["openai_images", "fal_queue", "chat_modalities"]
    base: str
    key_variables: tuple[str, ...]
    base_variables: tuple[str, ...] = ()
    model: str
    """The model that is asked unless the settings name another."""
    edit_suffix: str = ""
    """What is added to a model's name where pictures are given, unless it ends so already."""
    ratios: Mapping[str, RatioField]
    """How the form of a picture is said, by model or by a prefix that ends in `*`."""

    def find_key(self, environ: Mapping[str, str]) -> str:
        """Return its key; empty when it has none."""
        return next((found for name in self.key_variables if (found := environ.get(name, "").strip())), "")

    def base_url(self, given: str, environ: Mapping[str, str]) -> str:
        """Return its address without a slash at the end."""
        named = next((found for name in self.base_variables if (found := environ.get(name, "").strip())), "")
        return (given or named or self.base).rstrip("/")

    def find_ratio(self, model: str, ratio: AspectRatio) -> tuple[str, str]:
        """Return the field that says the form of a picture, and its value."""
        field = find_by_name(self.ratios, model)
        assert field is not None, f"no form of pictures for {model}"
        return field.name, field.values[ratio]


MAKERS = {
    "openai": PictureMaker(
        title="OpenAI",
        wire="openai_images",
        base="https://api.openai.com/v1",
        base_variables=("OPENAI_BASE_URL",),
        key_variables=("OPENAI_API_KEY",),
        model="gpt-image-2.5-flare",
        ratios={"*": RatioField("size", {"landscape": "1536x1024", "square": "1024x1024", "portrait": "1024x1536"})},
    ),
    "fal": PictureMaker(
        title="FAL",
        wire="fal_queue",
        base="https://queue.fal.run",
        key_variables=("FAL_KEY",),
        model="fal-ai/nano-banana",
        edit_suffix="/edit",
        ratios={
            "*": RatioField("aspect_ratio", _RATIOS),
            "fal-ai/flux*": RatioField(
                "image_size",
                {"landscape": "landscape_16_9", "square": "square_hd", "portrait": "portrait_16_9"},
            ),
        },
    ),
    "openrouter": PictureMaker(
        title="OpenRouter",
        wire="chat_modalities",
        base="https://openrouter.ai/api/v1",
        base_variables=("OPENROUTER_BASE_URL",),
        key_variables=("OPENROUTER_API_KEY",),
        model="google/gemini-2.5-flash-image",
        ratios={"*": RatioField("aspect_ratio", _RATIOS)},
    ),
}
"""The services by their names in `image_gen.provider`. Where none is named, the first that has a key is asked."""


def choose_maker(name: str, environ: Mapping[str, str]) -> PictureMaker:
    """Return the service to ask: the named one, else the first that has a key. Raises ToolError."""
    if not name:
        found = next((one for one in MAKERS.values() if one.find_key(environ)), None)
        if found is None:
            names = " / ".join(one.key_variables[0] for one in MAKERS.values())
            raise ToolError(f"Nobody can make pictures here: one of {names} is needed.")
        return found
    if name not in MAKERS:
        near = suggest_name(name, MAKERS)
        raise ToolError(
            f"No service called {name!r} makes pictures (image_gen.provider): {', '.join(MAKERS)} do. {near}".strip()
        )
    if not MAKERS[name].find_key(environ):
        raise ToolError(f"{MAKERS[name].title} needs a key: put it into {MAKERS[name].key_variables[0]}.")
    return MAKERS[name]
