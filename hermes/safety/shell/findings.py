"""The results of the analysis of a command, a path or a URL: verdicts, effects and findings."""

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """The verdict on an action: allowed, allowed after approval, or denied."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


MADE_HERE = "${:mktemp}"
"""The mark for the random part of a name from `mktemp`: no variable can have this name."""

STRICTNESS = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)
"""The verdicts, the mildest first."""


class EffectKind(StrEnum):
    """The kind of an effect that a command would have, as far as its text shows."""

    READS = "reads"
    """Reads something that holds keys or is private. Targets are paths."""
    WRITES = "writes"
    """Makes a file, or adds to one. Targets are paths."""
    OVERWRITES = "overwrites"
    """Loses the target's old content. Targets are paths or devices."""
    DELETES = "deletes"
    """Deletes files. Targets are paths."""
    DESTROYS = "destroys"
    """Loses something that is not a file of this machine: a branch, a table, a container, a cloud's resource."""
    FETCHES = "fetches"
    """Gets something from another host. Targets are hosts."""
    SENDS = "sends"
    """Gives something to another host. Targets are hosts."""
    PERSISTS = "persists"
    """Changes what is run later by itself: start files, units, jobs, hooks. Targets are paths or names."""
    ESCALATES = "escalates"
    """Gains rights, or opens something that was closed: root, permissions, firewalls, kernel modules."""
    KILLS = "kills"
    """Ends processes other than its own, or the machine. Targets are names or process ids."""
    EXHAUSTS = "exhausts"
    """Takes all of something: processes, memory, disk."""
    RUNS = "runs"
    """Runs code from files. Targets are those files, or the folders in which they are found."""
    UNKNOWN = "unknown"
    """Runs something that is only known at run time."""


FILE_LOSS_RULES = frozenset(
    {
        *("rm-recursive", "rm-all", "rm-outside", "deletes-given", "find-delete", "shred"),
        *("git-reset", "git-checkout", "git-restore", "git-switch", "git-clean", "git-rm", "git-read-tree"),
        "git-checkout-index",
    }
)
"""Rules about the loss of files and nothing else: a copy of what was there makes up for it."""


class CommandEffect(Struct, frozen=True):
    """One effect, with the argv that causes it as the shell would resolve it, and its targets."""

    kind: EffectKind
    argv: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


class CommandFinding(Struct, frozen=True):
    """A reason against running a command line.

    `subject` is what a person's pattern has to cover: the simple command, words with spaces in quotes, with `cd FOLDER
    &&` before it when it would run elsewhere than in the session's folder; `> FILE` or `< FILE` for a redirect;
    `NAME=value` for a variable. It is empty when no part of the line says what would happen: then only the whole line
    can be allowed. `contained` says that a sandbox takes the harm out of it: what it would change there is closed,
    hidden or the sandbox's own, and the network is off.
    """

    verdict: Verdict
    rule: str
    reason: str
    subject: str = ""
    contained: bool = False


class SimpleCommand(Struct, frozen=True, gc=False):
    """One simple command of a line, as the shell would resolve it, and the folder in which it would run.

    A value that is only known at run time is written in a word as `${NAME}` or `$()`. A redirect is a
    command of its own:
    `(">", FILE)` or `("<", FILE)`, with the file as an absolute path.
    """

    argv: tuple[str, ...]
    cwd: str
    is_certain: bool = True
    """Whether it runs in that folder or not at all, or else in the session's, as far as the text tells."""


class CommandJudgement(Struct, frozen=True):
    """All findings, effects and commands of a command line.

    `commands` are all its simple commands, each before those that it starts: inside wrappers, substitutions, loops,
    functions, and in shell texts that are given to other programs. Where not all could be listed a finding says so.
    """

    findings: tuple[CommandFinding, ...] = ()
    effects: tuple[CommandEffect, ...] = ()
    commands: tuple[SimpleCommand, ...] = ()
    moved: tuple[str, ...] = ()
    """The places to which the line moves or links things: files there are no build output, whatever their names."""

    def relevant_findings(self, *, sandboxed: bool) -> tuple[CommandFinding, ...]:
        """Return the findings that count where the command runs, the strictest first."""
        counting = [one for one in self.findings if not (sandboxed and one.contained)]
        return tuple(sorted(counting, key=lambda one: -STRICTNESS.index(one.verdict)))
