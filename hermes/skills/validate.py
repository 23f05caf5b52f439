"""Whether a skill is what the specification says: the same answer as `agentskills validate`, and limits of our own."""

import os

from hermes.core.errors import UsageError
from hermes.skills.files import MAIN, Files, as_text, check_whole, read_folder
from hermes.skills.skill import Head, read_head


def head_of(files: Files, name: str) -> Head:
    """The head of a skill that is about to have this name, with all that is wrong with its files."""
    if MAIN not in files:
        return Head(name=name, wrong=(f"it has no {MAIN}",))
    text = as_text(files[MAIN])
    if text is None:
        return Head(name=name, wrong=(f"{MAIN} is not text in UTF-8",))
    try:
        check_whole(files)
    except UsageError as error:
        return Head(name=name, wrong=(error.message.rstrip("."),))
    return read_head(text, name)


def check(files: Files, name: str) -> Head:
    """The same, for one that is to be kept. Raises UsageError with all that is wrong."""
    head = head_of(files, name)
    if head.wrong:
        raise UsageError(f"The skill {name!r} cannot be used: {'; '.join(head.wrong)}.")
    return head


def problems(folder: str) -> list[str]:
    """Everything that is wrong or odd with the skill in a folder; none when it is as the specification has it."""
    folder = os.path.abspath(folder)
    try:
        head = head_of(read_folder(folder), os.path.basename(folder))
    except UsageError as error:
        return [error.message.rstrip(".")]
    return [*head.wrong, *head.odd]
