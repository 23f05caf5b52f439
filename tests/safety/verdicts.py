"""The one verdict on a command line that tests compare."""

from hermes.safety.shell.findings import STRICTNESS, CommandJudgement, Verdict


def overall_verdict(judged: CommandJudgement, *, sandboxed: bool) -> Verdict:
    """Return the verdict on a line where it runs."""
    found = (one.verdict for one in judged.relevant_findings(sandboxed=sandboxed))
    return max(found, key=STRICTNESS.index, default=Verdict.ALLOW)
