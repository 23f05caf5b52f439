"""What the analysis of a command, a path or an address says."""

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """What may happen: without asking, after a person said yes, or not at all."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


_STRICTNESS = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


def strictest(*verdicts: Verdict) -> Verdict:
    """The strictest of them; ALLOW when there is none."""
    return max(verdicts, key=_STRICTNESS.index, default=Verdict.ALLOW)


class EffectKind(StrEnum):
    """What a command would do to the world, as far as its text tells."""

    READS = "reads"
    """Reads something that holds keys or is private. Targets are paths."""
    WRITES = "writes"
    """Makes a file, or adds to one. Targets are paths."""
    OVERWRITES = "overwrites"
    """What the target held before is lost. Targets are paths or devices."""
    DELETES = "deletes"
    """Targets are paths."""
    DESTROYS = "destroys"
    """Loses something that is not a file of this machine: a branch, a table, a container, a cloud's resource."""
    FETCHES = "fetches"
    """Gets something from another host. Targets are hosts."""
    SENDS = "sends"
    """Gives something to another host. Targets are hosts."""
    PERSISTS = "persists"
    """Changes what runs later by itself: start files, units, jobs, hooks. Targets are paths or names."""
    ESCALATES = "escalates"
    """Gains rights, or opens what was closed: root, permissions, firewalls, kernel modules."""
    KILLS = "kills"
    """Ends processes that are not its own, or the machine. Targets are names or process ids."""
    EXHAUSTS = "exhausts"
    """Takes all of something: processes, memory, disk."""
    RUNS = "runs"
    """Runs code out of files. Targets are those files, or the folders in which they are found."""
    UNKNOWN = "unknown"
    """Runs something that cannot be told before it runs."""


class Effect(Struct, frozen=True):
    """One effect, with the argv that it comes from as the shell would resolve it, and what it is done to."""

    kind: EffectKind
    argv: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


class Finding(Struct, frozen=True):
    """One thing that speaks against a command line.

    `subject` is what a person's pattern has to cover: the simple command, words with spaces in quotes, with
    `cd FOLDER &&` before it when it would run elsewhere than in the session's folder; `> FILE` or `< FILE` for a
    redirect; `NAME=value` for a variable. It is empty when no part of the line says what would happen: then only the
    whole line can be allowed. `contained` says that a sandbox takes the harm out of it: what it would change there is
    closed, hidden or the sandbox's own, and the network is off.
    """

    verdict: Verdict
    rule: str
    reason: str
    subject: str = ""
    contained: bool = False


class Simple(Struct, frozen=True, gc=False):
    """One simple command of a line, as the shell would resolve it, and the folder in which it would run.

    What is only known when it runs stands in a word as `${NAME}` or `$()`. A redirect is a command of its own:
    `(">", FILE)` or `("<", FILE)`, with the file as an absolute path.
    """

    argv: tuple[str, ...]
    cwd: str


class Judgement(Struct, frozen=True):
    """Everything that was found out about a command line.

    `commands` are all its simple commands, each before those that it starts: inside wrappers, substitutions, loops,
    functions, and in shell texts that are given to other programs. Where not all could be listed a finding says so.
    """

    findings: tuple[Finding, ...] = ()
    effects: tuple[Effect, ...] = ()
    commands: tuple[Simple, ...] = ()
    moved: tuple[str, ...] = ()
    """Where the line moves or links things: what lies there is no output of a build, whatever it is called."""

    def held(self, *, sandboxed: bool) -> tuple[Finding, ...]:
        """The findings that count where the command runs, the strictest first."""
        counting = [one for one in self.findings if not (sandboxed and one.contained)]
        return tuple(sorted(counting, key=lambda one: -_STRICTNESS.index(one.verdict)))

    def verdict(self, *, sandboxed: bool) -> Verdict:
        """What may happen with the line there."""
        return strictest(*(one.verdict for one in self.held(sandboxed=sandboxed)))
