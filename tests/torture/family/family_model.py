"""The model of the family's bot: it does what a message says, so that a step can be read from what people write."""

import asyncio
import json
import re

from hermes.testing.conversation import StepRole
from hermes.testing.obedient_model import ObedientModel
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, Say

_SPEAKER = re.compile(r"^\[Person ?\d+\] ")
"""Who speaks, in front of a message of a session that several people share."""
_WAIT = re.compile(r"WAIT (\w+)")


class FamilyModel:
    """`WAIT name` answers when that gate is opened; `RECALL` names what was said so far, `TOOLS` what may be used,
    `MODEL` which model is asked. `DO: tool {...}` and `SAY:` are those of the obedient model."""

    def __init__(self) -> None:
        self._obedient = ObedientModel()
        self._gates: dict[str, asyncio.Event] = {}

    def open(self, name: str) -> None:
        """Let the answers of this gate go."""
        self._gates.setdefault(name, asyncio.Event()).set()

    async def reply(self, request: RecordedRequest) -> Reply:
        """Return the answer."""
        told = spoken(request)
        last = request.conversation[-1]
        if gate := _WAIT.search(told):
            if "DO: todo first" in told and last.role is StepRole.USER:
                return Say("", calls=(Call("todo", {"todos": []}),))
            await self._gates.setdefault(gate[1], asyncio.Event()).wait()
            if follow := re.search(r"THEN (\w+) (\{.*\})", told):
                if last.role is StepRole.USER:
                    return Say("", calls=(Call(follow[1], follow[2]),))
                return Say(f"{gate[1]} is over: {last.text[:300]}")
            return Say(f"{gate[1]} is done.")
        if last.role is StepRole.USER:
            if told.startswith("RECALL"):
                said = [_plain(one.text) for one in request.conversation if one.role is StepRole.USER]
                return Say("I recall: " + " | ".join(one[:60] for one in said[:-1]))
            if told.startswith("TOOLS"):
                return Say("Tools: " + (", ".join(sorted(request.tool_names)) or "none") + ".")
            if told.startswith("MODEL"):
                return Say(f"The model is {request.model}.")
            if "DO:" not in told and "SAY:" not in told:
                picture = " and a picture" if '"image_url"' in json.dumps(request.messages[-1]) else ""
                return Say(f"heard {told[:120]}{picture}")
        return self._obedient.reply(request)


def spoken(request: RecordedRequest) -> str:
    """What the person said last, without the notes behind it."""
    return _plain(request.last_user_text)


def _plain(text: str) -> str:
    return _SPEAKER.sub("", text.split("\n\n[Now:", maxsplit=1)[0])
