"""`/status`: show this session's model, context window, backend and usage."""

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.i18n.formats import number
from hermes.i18n.messages import phrase, say, say_many, translated
from hermes.util.text import escaped


async def show_status(call: CommandCall) -> None:
    """Show a few lines about the session."""
    call.require_no_arguments()
    app, actor = call.context.app, call.context.actor
    row = await app.session_row(actor)
    count = say_many("{n} message", "{n} messages", int(str(row["message_count"])))
    title = escaped(str(row["title"]))
    named = say("Session {id} ({title}), {count}.", id=actor.session_id, title=title, count=count)
    lines = [named if title else say("Session {id}, {count}.", id=actor.session_id, count=count)]
    endpoint = actor.conversation.client.endpoint
    window = await app.context_length(actor)
    length = say("{n} tokens", n=number(window)) if window is not None else say("not known")
    lines.append(
        say(
            "Model {model} from {provider}, window: {length}.",
            model=endpoint.model,
            provider=translated(endpoint.record.title),
            length=length,
        )
    )
    lines.append(translated(await app.describe_backend(actor)))
    if app.is_yolo(actor):
        lines.append(
            say("NO QUESTIONS are asked in this session (/yolo ends that); what is never allowed stays refused.")
        )
    used = say(
        "Tokens used so far: {input} in, {output} out.",
        input=number(int(str(row["input_tokens"]))),
        output=number(int(str(row["output_tokens"]))),
    )
    call.context.tell("\n".join([*lines, used]))


COMMAND = SlashCommand(
    name="status",
    aliases=("session",),
    about=phrase("this session's id, model, window and tokens used so far"),
    group=CommandGroup.ABOUT,
    run=show_status,
)
