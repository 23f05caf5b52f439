"""A person's own rules about calls, with examples that are checked when they are read."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_
from hermes.safety.globs import concerns_subject, covers_subject, quote_argv
from hermes.safety.shell.findings import CommandEffect, CommandFinding, CommandJudgement, Verdict

POLICY_RULE_NAME = "policy"
"""The rule name of findings that a person's own rules make."""


class PolicyRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A person's rule: a pattern with a verdict.

    `match` and `no_match` are examples: subjects that the pattern must cover, and some that it must not. A rule whose
    examples do not hold is refused, so that a pattern means what its author intended.
    """

    pattern: str
    verdict: Verdict
    reason: str = ""
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()


def check_rules(rules: Sequence[PolicyRule], where: str) -> tuple[PolicyRule, ...]:
    """Return the rules. Raises ConfigError for an empty pattern and for an example that does not hold."""
    for number, rule in enumerate(rules, 1):
        place = f"{where}, rule {number} ({rule.pattern!r})"
        if not rule.pattern.strip():
            raise ConfigError(N_("{place} has no pattern.", place=place), "Give it one, or take the rule out.")
        about = covers_subject if rule.verdict is Verdict.ALLOW else concerns_subject
        wrong = [one for one in rule.match if not about(rule.pattern, one)]
        wrong += [one for one in rule.no_match if about(rule.pattern, one)]
        if wrong:
            said = "does not cover" if wrong[0] in rule.match else "covers"
            raise ConfigError(
                N_("{place} {said} its example {wrong}.", place=place, said=said, wrong=repr(wrong[0])),
                "Change the pattern or the example.",
            )
    return tuple(rules)


def policy_subjects(judged: CommandJudgement, effects: Iterable[CommandEffect], line: str) -> tuple[str, ...]:
    """Return the subjects of a command for the person's rules: each simple command of it, and the whole line."""
    argvs = (*(one.argv for one in judged.commands), *(one.argv for one in effects if one.argv))
    return tuple(dict.fromkeys((*map(quote_argv, argvs), line)))


def is_answered(finding: CommandFinding, patterns: Iterable[str], rules: Iterable[PolicyRule]) -> bool:
    """Return whether a question is answered with yes by an allowed pattern, or by a rule that allows.

    Of the person's own rules the strictest counts, so a rule that allows does not answer one that asks.
    """
    allowing = [one.pattern for one in rules if one.verdict is Verdict.ALLOW and finding.rule != POLICY_RULE_NAME]
    return any(covers_subject(pattern, finding.subject) for pattern in (*patterns, *allowing))


def find_policy_findings(rules: Iterable[PolicyRule], subjects: Iterable[str]) -> list[CommandFinding]:
    """Return the findings of the person's strict rules for these subjects; rules that allow make none."""
    strict = [rule for rule in rules if rule.verdict is not Verdict.ALLOW]
    found: list[CommandFinding] = []
    for subject in subjects if strict else ():
        for rule in strict:
            if concerns_subject(rule.pattern, subject):
                reason = rule.reason or N_("your rule `{pattern}` is about it", pattern=rule.pattern)
                found.append(CommandFinding(rule.verdict, POLICY_RULE_NAME, reason, subject))
    return found
