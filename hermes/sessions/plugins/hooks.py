"""The hooks of a session: where they come from, and how they are tied to its actor."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence

import msgspec

from hermes.config.home import HermesHome
from hermes.config.plugin_consents import PluginConsents
from hermes.config.settings import Settings
from hermes.config.trusted_folders import TrustFile
from hermes.core.errors import ConfigError
from hermes.core.messages import ImagePart, TextPart
from hermes.hooks.dispatcher import HookDispatcher
from hermes.hooks.hook import HookSource
from hermes.hooks.hook_sets import HookPlace, HookSet, HookSetState, name_hook_key, read_hook_set
from hermes.hooks.session_hooks import SessionFacts, SessionHooks
from hermes.hooks.shell_hooks import ShellHookDeps, make_shell_sources
from hermes.hooks.transcript_file import TranscriptFile
from hermes.i18n.messages import N_
from hermes.runtime.actor import SessionActor
from hermes.runtime.conversation import LiveConversation
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.backend_factory import filter_trusted_path
from hermes.sessions.services import Services
from hermes.sessions.session_tools import SessionPlan, SessionTools
from hermes.store.records import SUB_AGENT_SOURCE
from hermes.util.file_handles import RefusedPathError, open_read

HOOKS_NAME = "hooks"
"""The name of the set in `config.yaml`."""
_CLAUDE_NAME = "claude"
_CLAUDE_FILES = (".claude/settings.json", ".claude/settings.local.json")
_PROJECT_NAMES = ("claude-project", "claude-local")
_MAX_SETTINGS_BYTES = 1 << 20


def list_hook_places(
    home: HermesHome, settings: Settings, folder: str, environ: Mapping[str, str], trusted: Sequence[str] = ()
) -> list[HookPlace]:
    """Return the places that hold hooks: `config.yaml`, the settings of Claude Code in the home, and those in a folder
    that is trusted.
    """
    places = [HookPlace(name=HOOKS_NAME, file=str(home.config_file), section=settings.hooks)] if settings.hooks else []
    person = environ.get("HOME", "")
    if person:
        places += _read_foreign_place(os.path.join(person, _CLAUDE_FILES[0]), _CLAUDE_NAME, is_project=False)
    if os.path.realpath(person or "/") != folder and TrustFile(home.trust_file, trusted).is_trusted_folder(folder):
        for label, name in zip(_PROJECT_NAMES, _CLAUDE_FILES, strict=True):
            places += _read_foreign_place(os.path.join(folder, name), label, is_project=True)
    return places


def list_untrusted_hook_files(folder: str) -> dict[str, str]:
    """Return the settings in a folder that may hold hooks, by the names of their places, for one that is not trusted:
    nothing of them is read.
    """
    files = {label: os.path.join(folder, name) for label, name in zip(_PROJECT_NAMES, _CLAUDE_FILES, strict=True)}
    return {label: file for label, file in files.items() if os.path.lexists(file)}


def _read_foreign_place(file: str, name: str, *, is_project: bool) -> list[HookPlace]:
    """Return the hooks of another agent's settings, where there are any; a file that cannot be read has none."""
    with contextlib.suppress(OSError, RefusedPathError, msgspec.MsgspecError, RecursionError):
        with open(open_read(file), "rb") as opened:
            document = msgspec.json.decode(opened.read(_MAX_SETTINGS_BYTES))
        if isinstance(document, dict) and document.get("hooks") and document.get("disableAllHooks") is not True:
            return [HookPlace(name=name, file=file, section=document["hooks"], is_project=is_project)]
    return []


def read_hook_sets(
    home: HermesHome, settings: Settings, folder: str, environ: Mapping[str, str], trusted: Sequence[str] = ()
) -> list[HookSet]:
    """Return the hooks of all places for sessions in a folder, with their states."""
    consents = PluginConsents(home.consent_file)
    places = list_hook_places(home, settings, folder, environ, trusted)
    places += _list_lost_places(places, home, folder, trusted, consents)
    found = make_hook_environ(environ, folder)
    return [read_hook_set(place, folder, found, consents) for place in places]


def _list_lost_places(
    places: Sequence[HookPlace], home: HermesHome, folder: str, trusted: Sequence[str], consents: PluginConsents
) -> list[HookPlace]:
    """Return the places of a project whose hooks the person has enabled and that have none now: what they guarded is
    refused until that is looked at.
    """
    known = {one.file for one in places}
    found = []
    for label, name in zip(_PROJECT_NAMES, _CLAUDE_FILES, strict=True):
        file = os.path.join(folder, name)
        with contextlib.suppress(ConfigError):  # a damaged file of consents is said elsewhere
            if file not in known and consents.get(name_hook_key(file, folder)) is not None:
                found.append(HookPlace(name=label, file=file, section={}, is_project=True))
    return found if found and TrustFile(home.trust_file, trusted).is_trusted_folder(folder) else []


def describe_states(sets: Sequence[HookSet]) -> list[str]:
    """Return lines for the person about hooks that do not run as they stand."""
    lines = []
    for one in sets:
        name, file = one.place.name, one.place.file
        count = len(one.definitions.hooks)
        if one.state is HookSetState.OFF and name == HOOKS_NAME:
            lines.append(
                N_(
                    "{file} has {count} hooks that are not enabled, and none of them runs. `hermes plugins enable"
                    " {name}` shows and enables them.",
                    file=file,
                    count=count,
                    name=name,
                )
            )
        if one.state is HookSetState.CHANGED:
            lines.append(
                N_(
                    "The hooks of {file} have changed since they were enabled: none of them runs, and what they guard"
                    " is refused. `hermes plugins enable {name}` shows and enables them again.",
                    file=file,
                    name=name,
                )
            )
        if one.state is HookSetState.ENABLED:
            lines += [
                N_("{file}: the hook {name} does not run: {reason}.", file=file, name=bad.name, reason=bad.reason)
                for bad in one.definitions.refused
            ]
    return lines


def open_session_hooks(
    services: Services,
    plan: SessionPlan,
    tools: SessionTools,
    conversation: LiveConversation,
    *,
    sources: tuple[Sequence[HookSet], Sequence[HookSource]],
    notify: Callable[[str], None],
) -> SessionHooks | None:
    """Return the hooks of a session, or None without any; `sources` are sets of programs, and hooks of plug-ins.

    What does not run as it stands is told with the session's notices.
    """
    folder = os.path.realpath(plan.cwd)
    sets, more = sources
    services.add_notices(describe_states(sets))
    transcript = TranscriptFile(
        tools.context.spill_folder / "transcript.jsonl", plan.session_id, folder, conversation.messages
    )
    deps = ShellHookDeps(
        folder=folder,
        environ=make_hook_environ(services.process_environ, folder),
        find_supervisors=lambda: services.supervisors,
        resolve_path=tools.context.resolve_path,
        write_transcript=transcript.update,
    )
    found = [*make_shell_sources(sets, deps), *more]
    if not found:
        return None

    def get_mode() -> str:
        return "yolo" if tools.gate.session_grants.yolo else tools.state.mode.value

    facts = SessionFacts(
        session_id=plan.session_id,
        folder=folder,
        model=services.model.endpoint.model,
        is_fresh=plan.fresh,
        is_sub_agent=plan.options.platform == SUB_AGENT_SOURCE,
        get_mode=get_mode,
        list_sources=tools.state.taint.list_sources,
        spill_folder=tools.context.spill_folder,
    )
    return SessionHooks(HookDispatcher(found, notify), facts, transcript)


def make_hook_environ(environ: Mapping[str, str], folder: str) -> Mapping[str, str]:
    """Return the variables that programs of hooks get: the person's, but no program and no module is looked for in the
    folder that a session works in, where the agent may have put one.
    """
    path = filter_trusted_path(environ.get("PATH", ""), folder)
    return {**environ, "PATH": path, "PYTHONSAFEPATH": "1"}


def attach_hooks(hooks: SessionHooks, actor: SessionActor) -> None:
    """Tie hooks to an actor: to its messages, its events, the ends of its turns and its compressions."""

    async def review_message(inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
        if inbound.has_only_results:
            return ()
        said = "\n".join((inbound.text, *(one.text for one in inbound.quoted)))
        actor.attachments.refusal, parts = await hooks.review_message(said)
        return parts

    actor.attachments.providers.insert(0, review_message)
    actor.on_turn_end.append(hooks.end_turn)
    actor.on_close.append(actor.subscribe(hooks.take_event))
    actor.epochs.compression.guard = hooks
