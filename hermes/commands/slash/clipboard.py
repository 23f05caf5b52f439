"""`/prompt`, `/image`, `/paste`, `/copy`: what goes into the next message, and what comes out of an answer."""

from collections.abc import Sequence

from hermes.commands.command import HERE_ONLY, Call, Command, Group
from hermes.commands.context import Option, Terminal
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.messages import Role
from hermes.i18n.messages import phrase, say
from hermes.runtime.mailbox import Inbound
from hermes.util.text import inert, one_line


def _terminal(call: Call) -> Terminal:
    assert call.desk.terminal is not None  # the commands here exist in terminals only
    return call.desk.terminal


async def prompt(call: Call) -> None:
    """Write the next message in an editor, and send it."""
    text = await _terminal(call).edit(call.text)
    if text is None:
        call.desk.tell(say("Nothing was written, nothing is sent."))
        return
    call.desk.post(Inbound(text=text, cwd=call.desk.app.options.cwd))


async def image(call: Call) -> None:
    """Send a picture along with the next message."""
    if not call.text:
        raise UsageError(phrase("Name the picture: /image file"))
    _terminal(call).attach(call.text.strip("'\""))


async def paste(call: Call) -> None:
    """Send the picture in the clipboard along with the next message."""
    call.nothing_behind()
    if not await _terminal(call).paste_picture():
        call.desk.tell(say("There is no picture in the clipboard, or no way to it from here."))


async def copy(call: Call) -> None:
    """Copy the last answer, or the last but so many."""
    back = int(call.text) if call.text.isdecimal() else 1
    answers = _answers(call)
    if not 0 < back <= len(answers):
        raise NotFoundError(phrase("There is no such answer in this session."))
    call.desk.tell(await _terminal(call).copy(inert(answers[-back])))


def _answers(call: Call) -> list[str]:
    messages = call.desk.actor.conversation.messages
    return [one.text for one in messages if one.role is Role.ASSISTANT and not one.synthetic and one.text.strip()]


async def copies(call: Call) -> Sequence[Option]:
    """The last answers, by how far back they are."""
    return [Option(str(back), one_line(text, 60)) for back, text in enumerate(_answers(call)[:-10:-1], 1)]


COMMANDS = (
    Command(
        name="prompt",
        aliases=("compose",),
        about=phrase("write the next message in your editor"),
        usage=phrase("[beginning]"),
        group=Group.SESSION,
        run=prompt,
        surfaces=HERE_ONLY,
    ),
    Command(
        name="image",
        about=phrase("send a picture along with the next message"),
        usage=phrase("file"),
        group=Group.SESSION,
        run=image,
        surfaces=HERE_ONLY,
    ),
    Command(
        name="paste",
        about=phrase("the same with the picture in the clipboard"),
        group=Group.SESSION,
        run=paste,
        surfaces=HERE_ONLY,
    ),
    Command(
        name="copy",
        about=phrase("copy the last answer, or the last but N"),
        usage=phrase("[N]"),
        group=Group.SESSION,
        run=copy,
        complete=copies,
        surfaces=HERE_ONLY,
    ),
)
