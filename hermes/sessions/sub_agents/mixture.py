"""Mixture of agents: several models answer a prompt, each as a sub-agent without tools, and one weighs their answers in
the session, in one turn of it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.agent.turn import TurnState
from hermes.config.settings import MixturePreset, ModelReference, Settings
from hermes.core.encoding import Plain
from hermes.core.errors import HermesError, NotFoundError, UsageError
from hermes.core.events import TurnEnded
from hermes.core.messages import PROGRAM, ImagePart, TextPart
from hermes.core.sub_agents import SubAgentState, SubAgentTask
from hermes.i18n.messages import N_
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.model.model_route import choose_model, make_model_choice
from hermes.sessions.options import SessionOptions
from hermes.sessions.sub_agents.options import MIXTURE_PATH
from hermes.sessions.sub_agents.reports import find_origin
from hermes.util.text import to_one_line, truncate_middle

if TYPE_CHECKING:
    from hermes.sessions.model.model_route import ModelConnection
    from hermes.sessions.services import Services
    from hermes.sessions.session_builder import LiveSession
    from hermes.sessions.sub_agents.team import SubAgentTeam
    from hermes.store.sub_agents import SubAgentRow

MAX_AT_ONCE = 8
"""The most models of a mixture that are asked at the same time; more wait."""
_REFERENCE = (
    "You are one of several models that are asked the same question, each by itself and without tools. Answer it as "
    "well and as completely as you can, and say where you are not sure: another model reads all answers."
)
_HEAD = (
    "[Other models have answered this message, each by itself. Their answers are material: weigh them against each "
    "other, check what they claim, and answer the person yourself.]"
)


class MixtureAnswers(Struct, frozen=True):
    """What the models of a mixture have answered: the message for the one that weighs it, and who is left out."""

    message: InboundMessage
    left_out: Sequence[tuple[str, str]]
    """The models that have failed, each with why."""


class Mixture:
    """Asks the models of a preset, and has a live session answer by what they say."""

    def __init__(self, services: "Services", live: "LiveSession", team: "SubAgentTeam", preset_name: str) -> None:
        self._services = services
        self._live = live
        self._team = team
        self._name = preset_name
        self._preset = find_preset(services.settings, preset_name)
        self._aggregator: ModelConnection | None = None
        """The model that answers in the place of the session's own."""

    async def ask_references(self, prompt: str, cwd: str) -> MixtureAnswers | None:
        """Ask all models of the preset, between two turns of the session; None when that was stopped. Raises
        HermesError where none of them answers, ConfigError for an aggregator that cannot be used, and BusyError while a
        turn runs.
        """
        self._aggregator = await self._open_aggregator()
        models = self._preset.reference_models
        tasks = [self._make_task(prompt, number, one) for number, one in enumerate(models)]
        ended = await self._live.actor.exclusive(
            lambda: self._team.ask_all(tasks, at_once=MAX_AT_ONCE), N_("asking {n} models", n=len(tasks))
        )
        return None if ended is None else self._join_answers(ended, prompt, cwd)

    def _join_answers(self, ended: "Sequence[tuple[SubAgentRow, str]]", prompt: str, cwd: str) -> MixtureAnswers:
        good = [(row, said) for row, said in ended if _has_answered(row, said)]
        left_out = [
            (row.task.name, row.report.error or row.state.value) for row, said in ended if not _has_answered(row, said)
        ]
        if not good:
            why = "; ".join(f"{name}: {error}" for name, error in left_out)
            raise HermesError(N_("None of the models has answered: {why}", why=why))
        limit = self._services.settings.delegation.max_summary_chars
        answers = [f"[{row.task.name}]\n{truncate_middle(said, limit)}" for row, said in good]
        origin = find_origin([row for row, _ in good]) or PROGRAM
        part = TextPart(text="\n\n".join((_HEAD, *answers)), provenance=origin)
        return MixtureAnswers(InboundMessage(text=prompt, cwd=cwd, quoted=(part,)), left_out)

    async def _open_aggregator(self) -> "ModelConnection | None":
        """Open the aggregator that the preset names; a name alone is a model of the configured provider."""
        settings, choice = self._services.settings, make_model_choice(self._preset.aggregator)
        if not choice.provider and not choice.base_url:
            if not choice.model:
                return None
            choice = choose_model(settings.model, SessionOptions(model=choice.model))
        return await self._services.open_model_choice(choice)

    async def use_aggregator(self, message: InboundMessage) -> None:
        """Have the preset's aggregator answer this message, and the session's model what comes after it."""
        model, live, services = self._aggregator, self._live, self._services
        if model is None:
            return
        before = await services.open_model_choice(live.route.chosen_model or services.model.choice)
        actor = live.actor
        turn_begun = False

        async def switch_model(to: "ModelConnection", reason: str) -> None:
            await live.route.set_first_model(to)
            await live.renew(reason, True)

        async def take_over(inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
            nonlocal turn_begun
            if inbound.quoted == message.quoted:
                turn_begun = True
                await switch_model(model, N_("the aggregator of a mixture answers"))
            return ()

        async def give_back(_state: TurnState, _ended: TurnEnded) -> None:
            if turn_begun:
                actor.attachments.providers.remove(take_over)
                actor.on_turn_end.remove(give_back)
                await switch_model(before, N_("back to the model of the session"))

        actor.attachments.providers.append(take_over)
        actor.on_turn_end.append(give_back)

    def _make_task(self, prompt: str, number: int, model: ModelReference | str) -> SubAgentTask:
        return SubAgentTask(
            goal=prompt,
            name=to_one_line(_name_model(model), 60),
            instructions=_REFERENCE,
            tools=(),
            model=f"{MIXTURE_PATH}{self._name}.{number}",
            is_model_trusted=True,
            max_tokens=self._preset.max_tokens,
            max_cost=self._preset.max_cost,
        )


def _has_answered(row: "SubAgentRow", said: str) -> bool:
    return row.state is SubAgentState.DONE and bool(said.strip())


def find_preset(settings: Settings, name: str) -> MixturePreset:
    """Return a preset. Raises NotFoundError, and UsageError for one that names no models."""
    found = settings.moa.presets.get(name)
    if found is None:
        known = ", ".join(settings.moa.presets)
        hint = N_("Those there are: {names}.", names=known) if known else N_("Name its models under `moa.presets`.")
        raise NotFoundError(N_("There is no mixture {name!r}.", name=name[:40]), hint)
    if not found.reference_models:
        raise UsageError(N_("The mixture {name!r} names no models (reference_models).", name=name[:40]))
    return found


def list_presets(settings: Settings) -> list[Plain]:
    """List the presets with their models; `default` is true of the one that is used where none is named."""
    return [
        {
            "name": name,
            "default": name == choose_preset(settings, "")[0],
            "reference_models": [_name_model(one) for one in preset.reference_models],
            "aggregator": _name_model(preset.aggregator),
        }
        for name, preset in settings.moa.presets.items()
    ]


def _name_model(model: ModelReference | str) -> str:
    choice = make_model_choice(model)
    return choice.model or choice.provider or choice.base_url


def choose_preset(settings: Settings, text: str) -> tuple[str, str]:
    """Return the name of the preset that a text begins with (`NAME: PROMPT`), or of the default one, and the prompt."""
    presets = settings.moa.presets
    name, colon, rest = text.partition(":")
    if colon and name.strip() in presets:
        return name.strip(), rest.strip()
    return next(iter(presets)) if len(presets) == 1 else settings.moa.default_preset, text.strip()
