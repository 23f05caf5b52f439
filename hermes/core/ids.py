"""Identifiers: sortable by time where people read them, unguessable where they only have to be unique."""

import os
import time


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
