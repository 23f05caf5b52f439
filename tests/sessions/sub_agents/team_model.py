"""A model for tests of sub-agents: what each says depends on its own conversation alone, so any number run at once."""

import json
from collections.abc import Callable, Mapping, Sequence

from hermes.testing.conversation import StepRole
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, Say

TASK = "Your task:\n"


def delegate(*goals: str, **fields: object) -> Say:
    """Return an answer that delegates tasks."""
    arguments: dict[str, object] = dict(fields)
    if len(goals) == 1:
        arguments["goal"] = goals[0]
    else:
        arguments["tasks"] = [{"goal": goal} for goal in goals]
    return Say(calls=(Call("tool_call", {"name": "delegate_task", "arguments": arguments}),))


def find_goal(request: RecordedRequest) -> str:
    """Return the goal of the sub-agent that sends a request; empty for a session that a person talks with."""
    first = next((step.text for step in request.conversation if step.role is StepRole.USER), "")
    return first.partition(TASK)[2].partition("\n")[0] if TASK in first else ""


def count_rounds(request: RecordedRequest) -> int:
    """Return how many answers of the model a request holds."""
    return sum(step.role is StepRole.ASSISTANT for step in request.conversation)


def last_text(request: RecordedRequest) -> str:
    """Return the text of the last message of a request."""
    return request.conversation[-1].text


Script = Sequence[Reply] | Callable[[RecordedRequest], Reply]


class TeamModel:
    """Answers the session at the top by one script, and each sub-agent by that of its goal."""

    def __init__(self, top: Script, agents: Mapping[str, Script] | None = None) -> None:
        self._top = top
        self._agents = agents or {}

    def reply(self, request: RecordedRequest) -> Reply:
        """Return the next reply in the conversation of a request."""
        goal = find_goal(request)
        if not goal:
            return _choose(self._top, request)
        script = next((one for name, one in self._agents.items() if goal.startswith(name)), None)
        return Say(f"report on {goal}") if script is None else _choose(script, request)


def _choose(script: Script, request: RecordedRequest) -> Reply:
    if callable(script):
        return script(request)
    return script[min(count_rounds(request), len(script) - 1)]


def read_results(request: RecordedRequest) -> list[str]:
    """Return the texts of the tool results of a request."""
    return [step.text for step in request.conversation if step.role is StepRole.TOOL]


def dump(value: object) -> str:
    """Return a value as JSON."""
    return json.dumps(value)
