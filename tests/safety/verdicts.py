"""The one verdict on a command line that tests compare."""

from hermes.safety.shell.findings import CommandJudgement, Verdict, strictest_verdict


def overall_verdict(judged: CommandJudgement, *, sandboxed: bool) -> Verdict:
    """Return the verdict on a line where it runs."""
    return strictest_verdict(*(one.verdict for one in judged.relevant_findings(sandboxed=sandboxed)))
