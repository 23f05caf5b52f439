"""What a person chooses of a session in an editor: model, mode and thinking, as config options and, for older editors,
modes.
"""

from typing import TYPE_CHECKING

from hermes.acp.calls import Update
from hermes.acp.protocol import SetOptionParams
from hermes.core.errors import UsageError
from hermes.core.work_mode import WorkMode
from hermes.i18n.messages import N_, tr
from hermes.sessions.app import App, find_mode, is_mode_safe, set_mode

if TYPE_CHECKING:
    from hermes.admin.models.known_models import KnownProvider
    from hermes.admin.models.session_overrides import OverrideEditor
    from hermes.runtime.actor import SessionActor

_MODE, _MODEL, _THINKING = "mode", "model", "thinking"
_MODES = {
    WorkMode.ASK: (N_("Ask"), N_("Files are changed, commands run in the sandbox; what is risky is asked about.")),
    WorkMode.PLAN: (N_("Plan"), N_("Nothing is changed: it reads, searches, and ends with a plan.")),
    WorkMode.AUTO: (N_("Auto"), N_("Fewer questions, in the sandbox only.")),
}


class ConfigOptions:
    """The options of one session."""

    def __init__(self, app: App, actor: "SessionActor") -> None:
        self._app = app
        self._actor = actor

    @property
    def mode(self) -> str:
        """The id of the mode."""
        return find_mode(self._app, self._actor).value

    def describe_modes(self) -> Update:
        """Return the modes that are safe here, and which is on."""
        modes = [
            {"id": mode.value, "name": tr(name), "description": tr(about)}
            for mode, (name, about) in _MODES.items()
            if is_mode_safe(self._app, self._actor, mode)
        ]
        return {"currentModeId": self.mode, "availableModes": modes}

    def describe_all(self) -> list[Update]:
        """Return every option with its value."""
        modes = self.describe_modes()
        choices = [{"value": one.pop("id"), **one} for one in modes["availableModes"]]
        mode = {"id": _MODE, "name": tr("Mode"), "category": "mode", "type": "select"}
        return [
            {**mode, "currentValue": modes["currentModeId"], "options": choices},
            self._describe_model(),
            self._describe_thinking(),
        ]

    def set_mode(self, name: str) -> None:
        """Set the mode. Raises UsageError for one that is not known, or not safe here."""
        try:
            mode = WorkMode(name)
        except ValueError:
            raise UsageError(N_("There is no mode {name!r}.", name=name[:60])) from None
        set_mode(self._app, self._actor, mode)

    async def set_option(self, params: SetOptionParams) -> None:
        """Set an option. Raises UsageError for a value that is not offered, ConfigError for a model that cannot be
        used, BusyError while a turn runs, but for the mode.
        """
        value = str(params.value)
        match params.config_id:
            case "mode":
                self.set_mode(value)
            case "model":
                await self._set_model(value)
            case "thinking":
                await self._open_editor().set_effort(value)
            case _:
                raise UsageError(N_("There is no option {name!r}.", name=params.config_id[:60]))

    def _open_editor(self) -> "OverrideEditor":
        from hermes.admin.models.session_overrides import OverrideEditor

        return OverrideEditor(self._app.services, self._app.live_session(self._actor))

    async def _set_model(self, value: str) -> None:
        from hermes.admin.models.session_overrides import DEFAULT_CHOICE

        known = {f"{one.name}:{model}": (one.name, model) for one in self._list_known_models() for model in one.models}
        if value not in known:
            raise UsageError(
                N_("The model {name!r} is not among those offered.", name=value[:80]),
                N_("/model takes any name."),
            )
        provider, model = known[value]
        here = self._actor.conversation.client.endpoint
        if (provider, model) == (here.record.name, here.model):
            return
        editor = self._open_editor()
        editor.check_idle()
        first = self._app.endpoint
        if (provider, model) == (first.record.name, first.model):
            choice = editor.resolve_choice(DEFAULT_CHOICE, "")
        else:
            choice = editor.resolve_choice(model, "" if provider == here.record.name else provider)
        await editor.switch_model(await editor.open_model(choice))

    def _list_known_models(self) -> "list[KnownProvider]":
        from hermes.admin.models.known_models import list_known_models

        return list_known_models(self._app.services, self._actor.conversation.client.endpoint)

    def _describe_model(self) -> Update:
        here = self._actor.conversation.client.endpoint
        groups = [
            {
                "group": one.name,
                "name": one.title,
                "options": [{"value": f"{one.name}:{model}", "name": model} for model in one.models],
            }
            for one in self._list_known_models()
        ]
        about = {"id": _MODEL, "name": tr("Model"), "category": "model", "type": "select"}
        return {**about, "currentValue": f"{here.record.name}:{here.model}", "options": groups}

    def _describe_thinking(self) -> Update:
        from hermes.admin.models.session_overrides import DEFAULT_CHOICE, EFFORTS

        names = {DEFAULT_CHOICE: tr("as the model likes"), "none": tr("none")}
        about = {"id": _THINKING, "name": tr("Thinking"), "category": "thought_level", "type": "select"}
        options = [{"value": one, "name": names.get(one, one)} for one in (DEFAULT_CHOICE, *EFFORTS)]
        effort = self._open_editor().effort
        return {**about, "currentValue": effort if effort in EFFORTS else DEFAULT_CHOICE, "options": options}
