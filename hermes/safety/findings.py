"""What the analysis of a command or a path says."""

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """What may happen: without asking, after a person said yes, or not at all."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Finding(Struct, frozen=True):
    """One thing that speaks against a command. `subject` is the simple command it is about, words joined by spaces.

    `whole` is False when the subject could not be read with certainty: no pattern may be matched against a part of it.
    """

    verdict: Verdict
    rule: str
    reason: str
    subject: str = ""
    whole: bool = True
