"""The models of side tasks as tools of a session ask them: each kind with its own chain, under the session's caps."""

from collections.abc import Callable, Sequence

from hermes.config.settings import AuxiliarySettings, OptionalTaskSettings, SideTaskSettings
from hermes.core.errors import ToolError
from hermes.core.events import Event
from hermes.core.messages import FinishReason, ImagePart
from hermes.core.stream import Failure
from hermes.llm.client import SideQuestion, SideTask
from hermes.sessions.model.model_route import side_task_choices
from hermes.tools.session import SideAnswer
from hermes.util.localizable import join_localizable

SideTaskFactory = Callable[[str, SideTaskSettings], SideTask]


class SessionSideModels:
    """The side models of one session."""

    def __init__(self, settings: AuxiliarySettings, create_task: SideTaskFactory) -> None:
        self._settings = {"vision": settings.vision, "web_extract": settings.web_extract}
        self._create_task = create_task

    def is_enabled(self, purpose: str) -> bool:
        """Return whether the settings leave this side task to a model."""
        chosen = self._settings[purpose]
        return chosen.is_wanted if isinstance(chosen, OptionalTaskSettings) else True

    def is_named(self, purpose: str) -> bool:
        """Return whether the settings name a model for this side task."""
        return bool(side_task_choices(self._settings[purpose]))

    async def ask(
        self, purpose: str, system: str, text: str, *, images: Sequence[ImagePart] = (), max_tokens: int
    ) -> SideAnswer:
        """Return the answer of the first model that gives one. Raises ToolError when none does, and says why."""
        task = self._create_task(purpose, self._settings[purpose])
        question = SideQuestion(system, text, max_tokens, tuple(images))
        outcome = await task.answer_question(question, _ignore_event)
        if isinstance(outcome, Failure):
            raise ToolError(join_localizable(" ", (outcome.message, outcome.hint)))
        said, finish = outcome.message, outcome.message.finish
        if finish is FinishReason.CONTENT_FILTER:
            raise ToolError("The model's provider has held its answer back.")
        model = outcome.served_model or (said.origin.model if said.origin is not None else "a side model")
        return SideAnswer(said.text.strip(), model, is_whole=finish is not FinishReason.LENGTH)


async def _ignore_event(_event: Event) -> None:
    """Ignore the pauses of a side model's call."""
