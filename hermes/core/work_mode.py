"""How freely the agent works in a session. Only a person chooses it; each session begins in `ASK`."""

from enum import StrEnum


class WorkMode(StrEnum):
    """What needs a person's yes."""

    ASK = "ask"
    """What the person's policy asks about is asked."""
    PLAN = "plan"
    """Nothing is changed: the agent looks, and ends with a plan that the person approves."""
    AUTO = "auto"
    """What a sandbox holds is not asked about; untrusted content, hosts and protected places are, as ever."""
