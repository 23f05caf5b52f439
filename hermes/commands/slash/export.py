"""`/export` (also `/save`): write this conversation to a file.

`/share`: write it as a page that stands alone, to be given away; in a chat it is sent there.

`/prompt`, `/image`, `/paste`, `/copy`: compose the next message, and copy answers.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from hermes.commands.command import TERMINAL_ONLY, CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption, Terminal
from hermes.core.errors import NotFoundError, StoreError, UsageError
from hermes.core.messages import Role
from hermes.i18n.formats import format_bytes
from hermes.i18n.messages import N_, tr
from hermes.runtime.mailbox import InboundMessage
from hermes.util.text import escape_unseen_characters, strip_terminal_controls, to_one_line

_FORMATS = ("md", "html", "jsonl")


COMMANDS = CommandList(CommandGroup.SESSION)


async def complete_export(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the formats."""
    return [MenuOption("--format"), *(MenuOption(form) for form in _FORMATS)]


@COMMANDS.command(
    "export",
    N_("write this conversation into a file"),
    usage=N_("[file] [--format md|html|jsonl]"),
    aliases=("save",),
    complete=complete_export,
)
async def export_conversation(call: CommandCall) -> None:
    """Write the conversation to a file that does not exist yet, or that may be overwritten."""
    words, form = call.words, ""
    if "--format" in words:
        at = words.index("--format")
        form = next(iter(words[at + 1 : at + 2]), "")
        words = [*words[:at], *words[at + 2 :]]
    if len(words) > 1 or any(one.startswith("--") for one in words):
        raise UsageError(N_("/{name} takes a file and --format md, html or jsonl.", name=call.name))
    named = words[0] if words else f"{call.context.actor.session_id}.{form or 'md'}"
    form = form or named.rpartition(".")[2].lower()
    if form not in _FORMATS:
        raise UsageError(N_("There is no format {name!r}.", name=form), "--format md, html, jsonl")
    if (target := await _choose_target(call, named)) is not None:
        await _write_export(call, target, form)
        call.context.tell(tr("Written: {file}", file=escape_unseen_characters(str(target))))


@COMMANDS.command(
    "share",
    N_("write this conversation as one web page, without keys, to give away"),
    usage=N_("[file]"),
)
async def share_conversation(call: CommandCall) -> None:
    """Write the conversation as a page beside the work; in a chat, send it there."""
    if len(call.words) > 1 or call.text.startswith("--"):
        raise UsageError(N_("/share takes one file, or nothing."))
    from hermes.admin.export import SHARING_ADVICE

    name, chat = f"{call.context.port.session_id}.html", call.context.chat
    if chat is not None:
        if call.words:
            raise UsageError(N_("In a chat, /share takes nothing: the page is sent here."))
        page = call.context.app.services.home.root / "media" / "shared" / name
        await _write_export(call, page, "html")
        said = tr("This conversation as a page that opens in any browser. {advice}", advice=tr(SHARING_ADVICE))
        await chat.send_file(page, said)
    elif (target := await _choose_target(call, call.words[0] if call.words else name)) is not None:
        size = format_bytes(await _write_export(call, target, "html"))
        call.context.tell(tr("Written: {file} ({size}).", file=escape_unseen_characters(str(target)), size=size))
        said = tr("It is a file on this machine; nothing was sent anywhere. {advice}", advice=tr(SHARING_ADVICE))
        call.context.tell(said)


async def _choose_target(call: CommandCall, named: str) -> Path | None:
    """Return the file to write; None where one is there that the person wants to keep."""
    target, there = await asyncio.to_thread(_resolve_target, call.context.app.options.cwd, named)
    if there and not await call.context.confirm(
        tr("{file} is there already. Write over it?", file=escape_unseen_characters(str(target)))
    ):
        call.context.tell(tr("Nothing was written."))
        return None
    return target


async def _write_export(call: CommandCall, target: Path, form: str) -> int:
    """Write the conversation to the file, which only its owner may read; return its size. Raises StoreError."""
    from hermes.admin.export import export_session
    from hermes.admin.sessions import SessionAdmin
    from hermes.util.atomic_write import write_atomic

    on = call.context.app.services
    found = await SessionAdmin(on.store, on.home).show_session(call.context.port.session_id)
    exported = export_session(found, form, on.redactor.redact)
    try:
        await asyncio.to_thread(write_atomic, target, exported, mode=0o600, make_folders=True)
    except OSError as error:
        raise StoreError(N_("{file} cannot be written: {why}.", file=target, why=error.strerror)) from None
    return len(exported)


def _resolve_target(folder: str, named: str) -> tuple[Path, bool]:
    """Return the target file, and whether it exists."""
    target = Path(folder or os.getcwd()) / Path(named).expanduser()
    return target, os.path.lexists(target)


def _require_terminal(call: CommandCall) -> Terminal:
    assert call.context.terminal is not None  # the commands here exist in terminals only
    return call.context.terminal


@COMMANDS.command(
    "prompt",
    N_("write the next message in your editor"),
    usage=N_("[beginning]"),
    aliases=("compose",),
    surfaces=TERMINAL_ONLY,
)
async def edit_prompt(call: CommandCall) -> None:
    """Write the next message in an editor, and send it."""
    text = await _require_terminal(call).edit_text(call.text)
    if text is None:
        call.context.tell(tr("Nothing was written, nothing is sent."))
        return
    call.context.post_message(InboundMessage(text=text, cwd=call.context.app.options.cwd))


@COMMANDS.command("image", N_("send a picture along with the next message"), usage=N_("file"), surfaces=TERMINAL_ONLY)
async def attach_image(call: CommandCall) -> None:
    """Attach a picture to the next message."""
    if not call.text:
        raise UsageError(N_("Name the picture: /image file"))
    _require_terminal(call).attach_picture(call.text.strip("'\""))


@COMMANDS.command("paste", N_("the same with the picture in the clipboard"), surfaces=TERMINAL_ONLY)
async def paste_image(call: CommandCall) -> None:
    """Attach the picture in the clipboard to the next message."""
    call.require_no_arguments()
    if not await _require_terminal(call).paste_picture():
        call.context.tell(tr("There is no picture in the clipboard, or the clipboard cannot be reached from here."))


async def complete_copy(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the last answers, by how far back they are."""
    return [MenuOption(str(back), to_one_line(text, 60)) for back, text in enumerate(_list_answers(call)[:-10:-1], 1)]


@COMMANDS.command(
    "copy",
    N_("copy the last answer, or the last but N"),
    usage=N_("[N]"),
    complete=complete_copy,
    surfaces=TERMINAL_ONLY,
)
async def copy_answer(call: CommandCall) -> None:
    """Copy the last answer, or the last but N."""
    back = int(call.text) if call.text.isdecimal() else 1
    answers = _list_answers(call)
    if not 0 < back <= len(answers):
        raise NotFoundError(N_("There is no such answer in this session."))
    call.context.tell(await _require_terminal(call).copy_text(strip_terminal_controls(answers[-back])))


def _list_answers(call: CommandCall) -> list[str]:
    messages = call.context.actor.conversation.messages
    return [one.text for one in messages if one.role is Role.ASSISTANT and not one.synthetic and one.text.strip()]
