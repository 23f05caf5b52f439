"""Identifiers: sortable by time where people read them, unguessable where they only have to be unique."""

import os
import time
from collections.abc import Sequence


def new_session_id(now: float) -> str:
    """Return a session's name as people type it: local date and time, then six random hex digits."""
    return time.strftime("%Y%m%d_%H%M%S", time.localtime(now)) + "_" + os.urandom(3).hex()


def new_turn_id() -> str:
    """Return a fresh id for one turn."""
    return "turn_" + os.urandom(8).hex()


def new_run_id() -> str:
    """Return a fresh id for one run of a program."""
    return "run_" + os.urandom(8).hex()


def new_call_id() -> str:
    """Return an id for a tool call whose provider gave none."""
    return "call_" + os.urandom(9).hex()


def new_queued_message_id() -> str:
    """Return a fresh id for a queued message."""
    return "letter_" + os.urandom(8).hex()


NESTED_SEPARATOR = "."


def name_nested_call(call_id: str, number: int) -> str:
    """Return the id of the call that a run of code makes as its number so much (from 1)."""
    return f"{call_id}{NESTED_SEPARATOR}{number}"


def is_nested_call(call_id: str, outer: Sequence[str]) -> bool:
    """Return whether an id is that of a call which the code of one of these calls makes."""
    above, _, number = call_id.rpartition(NESTED_SEPARATOR)
    return number.isdecimal() and number.isascii() and above in outer
