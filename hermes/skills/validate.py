"""Validates a skill against the specification: the same answer as `agentskills validate`, and limits of our own."""

import os

from hermes.core.errors import UsageError
from hermes.skills.files import MAIN_FILE, Files, check_files, decode_text, read_folder
from hermes.skills.skill_head import SkillHead, read_head


def inspect_files(files: Files, name: str) -> SkillHead:
    """Return the head of a skill that is about to have this name, with all that is wrong with its files."""
    if MAIN_FILE not in files:
        return SkillHead(name=name, wrong=(f"it has no {MAIN_FILE}",))
    text = decode_text(files[MAIN_FILE])
    if text is None:
        return SkillHead(name=name, wrong=(f"{MAIN_FILE} is not text in UTF-8",))
    try:
        check_files(files)
    except UsageError as error:
        return SkillHead(name=name, wrong=(error.message.rstrip("."),))
    return read_head(text, name)


def check_skill(files: Files, name: str) -> SkillHead:
    """Return the head of a skill that is to be stored. Raises UsageError with all that is wrong."""
    head = inspect_files(files, name)
    if head.wrong:
        raise UsageError(f"The skill {name!r} cannot be used: {'; '.join(head.wrong)}.")
    return head


def list_problems(folder: str) -> list[str]:
    """Return everything that is wrong or odd with the skill in a folder; none when it is as the
    specification has it.
    """
    folder = os.path.abspath(folder)
    try:
        head = inspect_files(read_folder(folder), os.path.basename(folder))
    except UsageError as error:
        return [error.message.rstrip(".")]
    return [*head.wrong, *head.odd]
