"""What the analysis of a command or a path says."""

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """What may happen: without asking, after a person said yes, or not at all."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Finding(Struct, frozen=True):
    """One thing that speaks against a command line.

    `subject` is what a person's pattern has to cover: the simple command, its words joined by spaces, with
    `cd FOLDER &&` before it when it would run elsewhere than in the session's folder; `> FILE` or `< FILE` for a
    redirect; `NAME=value` for a variable. It is empty when no part of the line says what would happen: then only the
    whole line can be allowed.
    """

    verdict: Verdict
    rule: str
    reason: str
    subject: str = ""
