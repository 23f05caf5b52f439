"""Say in words what an event means: warnings, notices, how much is shown of a result. Both chats use these."""

from hermes.config.display import ToolProgress
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    EpochBegan,
    Event,
    FellBack,
    Level,
    Notice,
    Refused,
    Retrying,
    SubAgentChanged,
    ToolEnded,
    TurnEnded,
    TurnResumed,
)
from hermes.core.sub_agents import SubAgentState
from hermes.i18n.messages import localize, tr
from hermes.util.text import end_sentence, strip_control_characters, to_one_line

EDIT_TOOLS = ("patch", "write_file")
LEVEL_STYLES = {Level.INFO: "notice", Level.WARNING: "warning", Level.ERROR: "error"}
_MAX_PATTERN_LENGTH = 300
_MAX_MESSAGE_LENGTH = 100
_VERBOSE_LINES = 12


class RefusalFilter:
    """Knows which refusals a person has made themselves: the question has told them all about it."""

    def __init__(self) -> None:
        self._asked: dict[str, str] = {}
        """The calls that are asked about, by the questions' ids."""
        self._of_sub_agents: set[str] = set()
        """The questions of sub-agents, which do not end with the turn."""
        self._refused: set[str] = set()

    def note_event(self, event: Event) -> None:
        """Take note of questions and answers."""
        match event:
            case ApprovalAsked():
                self._asked[event.approval_id] = event.call_id
                self._of_sub_agents |= {event.approval_id} if event.asker else set()
            case ApprovalAnswered():
                call_id = self._asked.pop(event.approval_id, "")
                if not event.allowed and event.by == "person":
                    self._refused.add(call_id)
            case TurnEnded():
                self._asked = {name: call_id for name, call_id in self._asked.items() if name in self._of_sub_agents}
                self._of_sub_agents &= set(self._asked)
                self._refused.clear()
            case _:
                pass

    def is_known(self, event: Event) -> bool:
        """Return whether the event is a refusal that needs no more words."""
        return isinstance(event, Refused) and event.call_id in self._refused


class SubAgentLines:
    """Says in a line each that a sub-agent has begun, and how it has ended."""

    def __init__(self) -> None:
        self._begun: set[str] = set()

    def describe_change(self, event: SubAgentChanged) -> str:
        """Return the line about a change; empty for one that needs none."""
        if event.state.has_ended:
            from hermes.commands.sub_agent_texts import describe_end

            self._begun.discard(event.session_id)
            return describe_end(event)
        if event.state is SubAgentState.QUEUED or event.session_id in self._begun:
            return ""
        from hermes.commands.sub_agent_texts import describe_beginning

        self._begun.add(event.session_id)
        return describe_beginning(event)


def format_caching(kept: str) -> str:
    """Return the line about a provider that caches what requests have in common, and for how long (`5m`)."""
    return tr("Prompt caching: on ({time})", time=kept)


def describe_event(event: Event) -> tuple[str, str] | None:
    """Return what is to be said about an event as a style (`notice`, `warning`, `error`) and a text; None for an event
    that is shown in another way, or not at all. Lines and columns are the caller's.
    """
    match event:
        case Refused():
            return "warning", _format_refusal(event)
        case FellBack():
            model = f"{strip_control_characters(event.model)} ({strip_control_characters(event.provider)})"
            return "warning", tr("{why} Going on with {model}.", why=_format_reason(event.reason), model=model)
        case Retrying():
            return "warning", _format_retry(event)
        case Notice():
            return LEVEL_STYLES[event.level], localize(strip_control_characters(event.text))
        case TurnResumed():
            text = to_one_line(strip_control_characters(event.text), _MAX_MESSAGE_LENGTH)
            return "warning", tr("Going on with the turn that was cut off: {text}", text=text)
        case TurnEnded() if event.error:
            return "error", localize(strip_control_characters(event.error))
        case EpochBegan() if event.number > 1:
            from hermes.commands.event_descriptions import format_epoch_notice

            said = format_epoch_notice(event.reason, event.bytes)
            return ("notice", said) if said else None
        case _:
            return None


PICTURE_TOOLS = frozenset({"image_generate"})
"""Tools whose results name a picture that was made for the person."""


def has_diff(event: ToolEnded) -> bool:
    """Return whether the result of a call is a diff of what it changed."""
    return event.name in EDIT_TOOLS and any(line.startswith("@@") for line in event.preview.splitlines())


def count_preview_lines(progress: ToolProgress, usual: int) -> int:
    """Return how many lines of a result are shown, as the person wants it; `usual` where they said nothing."""
    return {ToolProgress.ALL: usual, ToolProgress.VERBOSE: _VERBOSE_LINES}.get(progress, 0)


def _format_refusal(event: Refused) -> str:
    said = tr(
        "refused: {subject} ({reason})",
        subject=to_one_line(strip_control_characters(event.subject)),
        reason=localize(strip_control_characters(event.reason)) + _format_allow_hint(event.pattern),
    )
    return name_asker(event.asker, said) if event.asker else said


def name_asker(name: str, said: str) -> str:
    """Return what is said of a sub-agent, with its name before it."""
    from hermes.commands.sub_agent_texts import clean_name

    return tr("Sub-agent {name}: {said}", name=clean_name(name), said=said)


def _format_allow_hint(pattern: str) -> str:
    """Say how to allow it the next time; empty for a pattern that a line cannot show unchanged."""
    shown = strip_control_characters(pattern) == pattern and "\n" not in pattern
    if not pattern or len(pattern) > _MAX_PATTERN_LENGTH or not shown:
        return ""
    import shlex

    return tr("; --allow {quote} would let it run", quote=shlex.quote(pattern))


def _format_retry(event: Retrying) -> str:
    why = _format_reason(event.message)
    if not event.delay:
        return why
    from hermes.i18n.formats import format_duration, format_time

    if event.until:
        return tr(
            "{why} Trying again in {time} (attempt {n}, until {moment} at most).",
            why=why,
            time=format_duration(event.delay),
            n=event.attempt,
            moment=format_time(event.until),
        )
    if event.most:
        return tr(
            "{why} Trying again in {time} (attempt {n} of {most}).",
            why=why,
            time=format_duration(event.delay),
            n=event.attempt,
            most=event.most,
        )
    return tr(
        "{why} Trying again in {time} (attempt {n}).", why=why, time=format_duration(event.delay), n=event.attempt
    )


def _format_reason(text: str) -> str:
    return localize(end_sentence(strip_control_characters(text)))
