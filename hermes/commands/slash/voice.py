"""`/voice`: whether the answers of a chat are spoken, and who hears and speaks."""

from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption
from hermes.config.speech import VoiceMode
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import N_, localize, tr
from hermes.util.text import escape_unseen_characters

COMMANDS = CommandList(CommandGroup.LOOKS)
_WORDS = {
    "on": VoiceMode.ALWAYS,
    "tts": VoiceMode.ALWAYS,
    "off": VoiceMode.NEVER,
    "auto": VoiceMode.AUTO,
}
_SAID = {
    VoiceMode.ALWAYS: N_("Every answer here is spoken, too."),
    VoiceMode.AUTO: N_("Answers to what you say aloud are spoken, too."),
    VoiceMode.NEVER: N_("Answers here are text only."),
}


async def complete_modes(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the modes."""
    return [MenuOption(word) for word in ("on", "off", "auto", "status")]


@COMMANDS.command(
    "voice",
    N_("have answers in this chat spoken, and see who hears and speaks"),
    usage=N_("[on|off|auto|status]"),
    complete=complete_modes,
)
async def set_voice(call: CommandCall) -> None:
    """Choose when this chat's answers are spoken; `status`, and the name alone, say how things are."""
    word = call.text.strip().lower()
    if word not in (*_WORDS, "status", ""):
        raise UsageError(N_("/voice takes on, off, auto or status."))
    chat = call.context.chat
    if word in _WORDS:
        if chat is None:
            raise UsageError(
                N_("Only chats on platforms have a voice."),
                N_("`hermes config set tts.answers auto` is for all of them."),
            )
        await chat.set_voice_mode(_WORDS[word])
    lines = [] if chat is None else [tr(_SAID[await chat.get_voice_mode()])]
    if word in ("on", "tts", "auto"):
        lines += [line for line in [_describe_speaker(call, only_missing=True)] if line]
    elif word != "off":
        lines += [_describe_listener(call), _describe_speaker(call)]
    call.context.tell("\n".join(lines))


def _describe_listener(call: CommandCall) -> str:
    try:
        engine = call.context.app.services.speech().find_transcriber()
    except HermesError as error:
        return localize(str(error))
    return tr("Voice messages are heard by {name}.", name=escape_unseen_characters(localize(engine.title)))


def _describe_speaker(call: CommandCall, *, only_missing: bool = False) -> str:
    try:
        engine = call.context.app.services.speech().find_speaker()
    except HermesError as error:
        return localize(str(error))
    if only_missing:
        return ""
    return tr("Answers are spoken by {name}.", name=escape_unseen_characters(localize(engine.title)))
