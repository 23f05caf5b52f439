"""A long scripted conversation with facts, standing rules, files and open requests planted in it, and its models."""

import re
from pathlib import Path

from hermes.testing.conversation import StepRole
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, Say

RULES = [
    "Always answer in metric units.",
    "Never push to the branch release-7.",
    "From now on call the staging host heron-3.",
    "Ask me before you delete any table!",
    "Don't touch vendor/legacy, whatever happens.",
    "You must run the linter with --strict.",
    "以后每次提交都要写中文说明。",
    "永远不要把日志发到外部。",
    "部署之前必须先问我。",
    "Whenever a test is skipped, tell me its name.",
]
REQUESTS = [
    "Please find out why invoice 4711 was sent twice.",
    "Write a migration that renames the column colour to color.",
    "还要把周报改成每周三生成。",
    "Compare the two backup offers when you have both.",
    "Prepare a list of the customers without an address.",
]
PATHS = [f"src/module_{number}/part_{number}.py" for number in range(10)]
SAID_FACTS = [f"The budget of team {number} is {7_000 + 13 * number} euros" for number in range(10)]
RESULT_FACTS = [f"port_of_service_{number}={20_000 + 17 * number}" for number in range(10)]
TEXT_FACTS = [f"I measured {31 + 3 * number} ms for query {number}" for number in range(10)]
FACTS = [*SAID_FACTS, *RESULT_FACTS, *TEXT_FACTS]
ROUNDS = 10


def is_summary(request: RecordedRequest) -> bool:
    return "condense" in request.system and not request.tool_names


def plant_files(folder: Path) -> None:
    for number, path in enumerate(PATHS):
        file = folder / path
        file.parent.mkdir(parents=True)
        filler = "\n".join(f"line {line} of module {number} says nothing of note" for line in range(60))
        file.write_text(f"{RESULT_FACTS[number]}\n{filler}\n")
    (folder / "filler.txt").write_text("\n".join(f"filler line {line} with some words in it" for line in range(80)))


def user_text(number: int) -> str:
    """What the person says in a round: planted things first, then small talk."""
    if number >= ROUNDS:
        return f"Look at the filler once more, time {number}."
    request = REQUESTS[number // 2] if number % 2 else "Look at the next module."
    return f"{SAID_FACTS[number]}. {RULES[number]} {request}"


def converse(request: RecordedRequest) -> Reply:
    """The agent's model: reads the round's file, then tells what it measured."""
    steps = request.conversation
    if steps[-1].role is StepRole.TOOL:
        done = [path for path in PATHS if path in str(steps[-2:])]
        number = PATHS.index(done[0]) if done else 0
        return Say(f"{TEXT_FACTS[number]}. Read." if done else "I read the filler again.")
    asked = next(number for number in range(10_000) if user_text(number) in request.last_user_text)
    path = PATHS[asked] if asked < ROUNDS else "filler.txt"
    return Say(calls=(Call("read_file", {"path": path}),))


def extract(request: RecordedRequest) -> Reply:
    """A dumb summary: the notes before, and the beginning of each message."""
    text = request.last_user_text
    before = re.search(r"<notes \w+>\n(.*)\n</notes", text, re.DOTALL)
    material = re.search(r"<material \w+>\n(.*)\n</material", text, re.DOTALL)
    assert material is not None
    lines = [line[:100] for line in re.split(r"\n\n(?=\[\d+\])", material[1])]
    notes = "\n".join([*(before[1].splitlines() if before else ["## Goal", "none", "## Critical Context"]), *lines])
    return Say(notes[:6_000])
