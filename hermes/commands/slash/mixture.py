"""`/moa`: several models answer a prompt, and one weighs their answers in this session."""

from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption, PostMode
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.i18n.messages import N_, localize, tr
from hermes.util.text import escape_unseen_characters

COMMANDS = CommandList(CommandGroup.WORK)


async def complete_mixture(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the names of presets."""
    presets = call.context.app.services.settings.moa.presets
    return [MenuOption(f"{name}:") for name in presets] if not call.text.strip() else []


@COMMANDS.command(
    "moa",
    N_("have several models answer a prompt, and one weigh their answers"),
    usage=N_("[preset:] prompt"),
    complete=complete_mixture,
    while_busy=False,
)
async def ask_mixture(call: CommandCall) -> None:
    """Ask the models of a preset, and post the prompt with their answers to the session."""
    from hermes.sessions.sub_agents.mixture import Mixture, choose_preset

    context, app = call.context, call.context.app
    name, prompt = choose_preset(app.services.settings, call.text)
    if not prompt:
        raise UsageError(N_("/moa takes a prompt."), N_("`hermes moa` lists the presets."))
    actor = context.actor
    mixture = Mixture(app.services, app.live_session(actor), app.sub_agents.open_team(actor.session_id), name)
    answers = await mixture.ask_references(app.redact_text(prompt), app.options.cwd)
    if answers is None:
        context.tell(tr("It was stopped; nothing was asked of this session."))
        return
    for model, why in answers.left_out:
        said = tr("{model} is left out: {why}", model=model, why=localize(why))
        context.tell(escape_unseen_characters(said), Level.WARNING)
    await mixture.use_aggregator(answers.message)
    context.post_message(answers.message, PostMode.QUEUE)
