"""A person's own rules about calls, with examples that are checked when they are read."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from hermes.core.errors import ConfigError
from hermes.safety.globs import covers, speaks_of, spelled
from hermes.safety.shell.findings import Effect, Finding, Judgement, Verdict

OWN = "policy"
"""The rule of a finding that one of the person's own rules makes."""


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern with what it means.

    `match` and `no_match` are examples: subjects that the pattern must cover, and some that it must not. A rule whose
    examples do not hold is refused, so that a pattern means what its writer thought.
    """

    pattern: str
    verdict: Verdict
    reason: str = ""
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()


def checked(rules: Sequence[Rule], where: str) -> tuple[Rule, ...]:
    """The rules. Raises ConfigError for an empty pattern and for an example that does not hold."""
    for number, rule in enumerate(rules, 1):
        place = f"{where}, rule {number} ({rule.pattern!r})"
        if not rule.pattern.strip():
            raise ConfigError(f"{place} has no pattern.", "Give it one, or take the rule out.")
        about = covers if rule.verdict is Verdict.ALLOW else speaks_of
        wrong = [one for one in rule.match if not about(rule.pattern, one)]
        wrong += [one for one in rule.no_match if about(rule.pattern, one)]
        if wrong:
            said = "does not cover" if wrong[0] in rule.match else "covers"
            raise ConfigError(f"{place} {said} its example {wrong[0]!r}.", "Change the pattern or the example.")
    return tuple(rules)


def subjects_of(judged: Judgement, effects: Iterable[Effect], line: str) -> tuple[str, ...]:
    """What of a command the person's rules are matched against: each simple command of it, and the line as it is."""
    argvs = (*(one.argv for one in judged.commands), *(one.argv for one in effects if one.argv))
    return tuple(dict.fromkeys((*map(spelled, argvs), line)))


def answered(finding: Finding, patterns: Iterable[str], rules: Iterable[Rule]) -> bool:
    """Whether a question is answered with yes: by an allowed pattern, or by a rule that allows.

    Of the person's own rules the strictest counts, so a rule that allows does not answer one that asks.
    """
    if any(covers(pattern, finding.subject) for pattern in patterns):
        return True
    allowing = (rule for rule in rules if rule.verdict is Verdict.ALLOW and finding.rule != OWN)
    return any(covers(rule.pattern, finding.subject) for rule in allowing)


def said_by(rules: Iterable[Rule], subjects: Iterable[str]) -> list[Finding]:
    """What the person's rules say against these subjects; rules that allow say nothing here."""
    strict = [rule for rule in rules if rule.verdict is not Verdict.ALLOW]
    if not strict:
        return []
    return [
        Finding(rule.verdict, OWN, rule.reason or f"your rule `{rule.pattern}` is about it", subject)
        for subject in subjects
        for rule in strict
        if speaks_of(rule.pattern, subject)
    ]
