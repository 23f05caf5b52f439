"""`/status`: show this session's model, context window, backend and usage."""

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.i18n.formats import format_number
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.util.text import escape_unseen_characters


async def show_status(call: CommandCall) -> None:
    """Show a few lines about the session."""
    call.require_no_arguments()
    app, actor = call.context.app, call.context.actor
    row = await app.session_row(actor)
    count = tr_plural("{n} message", "{n} messages", int(str(row["message_count"])))
    title = escape_unseen_characters(str(row["title"]))
    named = tr("Session {id} ({title}), {count}.", id=actor.session_id, title=title, count=count)
    lines = [named if title else tr("Session {id}, {count}.", id=actor.session_id, count=count)]
    endpoint = actor.conversation.client.endpoint
    window = await app.context_length(actor)
    length = tr("{n} tokens", n=format_number(window)) if window is not None else tr("not known")
    lines.append(
        tr(
            "Model {model} from {provider}, window: {length}.",
            model=endpoint.model,
            provider=localize(endpoint.record.title),
            length=length,
        )
    )
    lines.append(localize(await app.describe_backend(actor)))
    if app.is_yolo(actor):
        lines.append(
            tr("NO QUESTIONS are asked in this session (/yolo ends that); what is never allowed stays refused.")
        )
    used = tr(
        "Tokens used so far: {input} in, {output} out.",
        input=format_number(int(str(row["input_tokens"]))),
        output=format_number(int(str(row["output_tokens"]))),
    )
    call.context.tell("\n".join([*lines, used]))


COMMAND = SlashCommand(
    name="status",
    aliases=("session",),
    about=N_("this session's id, model, window and tokens used so far"),
    group=CommandGroup.ABOUT,
    run=show_status,
)
