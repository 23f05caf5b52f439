"""`text_to_speech`: speaks a text into a file."""

import asyncio
import os
import secrets
from pathlib import Path
from typing import Annotated

from hermes.core.errors import HermesError, ToolError
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, PathUse, tool

LONGEST_TEXT = 4_000
_ENDS = (".ogg", ".wav", ".mp3")


@tool(
    "tts",
    parallel=Parallel.PATHS,
    repeatable=True,
    deferred=True,
    brief="speak",
    summary=lambda args: f"speak: {args['text']}",
    paths=lambda args: [PathUse(str(args["output_path"]), write=True)] if args.get("output_path") else [],
)
async def text_to_speech(
    ctx: ToolContext,
    text: Annotated[str, "What to say, as plain sentences without markup, at most 4,000 characters."],
    output_path: Annotated[str, "File to write (.ogg, .wav, .mp3). Leave it out to send it to a chat."] = "",
) -> str:
    """Speak a text into a sound file. To send it to the chat as a voice message, name the file in the answer as
    MEDIA:/path.
    """
    if len(text) > LONGEST_TEXT:
        raise ToolError(f"The text has {len(text):,} characters; at most {LONGEST_TEXT:,} are spoken at once.")
    if output_path and not output_path.lower().endswith(_ENDS):
        raise ToolError(f"output_path must end in {', '.join(_ENDS)}.")
    if ctx.get_speech is None:
        raise ToolError("Nothing can speak here.")
    # What is under way lies where neither commands nor other programs look for it.
    folder = ctx.spill_folder if ctx.places.foreign else Path(ctx.places.hermes) / "media"
    target = folder / "voice" / f"{secrets.token_hex(6)}{Path(output_path).suffix.lower()}"
    try:
        made = await ctx.get_speech().speak_text(ctx.redact(text), target)
    except HermesError as error:
        raise ToolError(str(error)) from None
    path = made.path
    if output_path:
        path = await asyncio.to_thread(_move_file, made.path, output_path, ctx)
    length = f", {made.seconds:.1f} s" if made.seconds else ""
    return f"Spoken by {made.engine}{length}: {path}"


def _move_file(made: str, output_path: str, ctx: ToolContext) -> str:
    from hermes.tools import files

    try:
        with open(made, "rb") as file:
            return files.save_file(ctx.resolve_path(output_path), output_path, file.read(), ctx)
    finally:
        os.unlink(made)
