"""Programs that run, or install, what an address names: unlike a package of a registry, it has no trusted publisher."""

import re
from collections.abc import Callable

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import ShellStream

Rule = Callable[[ProgramCall], ShellStream | None]
RUNS = "it installs and runs a package from an address"
ADDRESSED = re.compile(
    r"(?:\S{1,200}?\s?@\s?)?(?:(?:git|hg|svn|bzr)\+\S|https?://|git@|git://|ssh://|ftp://|"
    r"(?:github|gitlab|bitbucket|gist|sourcehut):)"
)
"""How a package is named by where it lies."""
_SHORT = re.compile(r"[\w.-]+/[\w.-]+(#\S+)?$")
"""Somebody's repository, where a package's name is expected."""
_ANY = r".*(https?|ftp|git|ssh)://"
_FROM: dict[str, str] = {
    # By program: what of its words, joined by spaces, says that it runs what it gets from an address.
    "cargo": r"install\b.* --git\b",
    "nix": r"(run|develop|shell|build|profile install)\b.*(github:|gitlab:|git\+|https?://|tarball\+)",
    **dict.fromkeys(("nix-shell", "nix-build", "nix-env", "jbang", "scala-cli", "amm", "bb", "kotlin", "cpanm"), _ANY),
    "brew": r"(re)?install\b.*https?://",
    "gem": r"install\b.*( --source\b| -s\b|https?://)",
    "luarocks": r"install\b.*(https?://| --server\b)",
    "ansible-pull": r"(.* )?(-U|--url)\b",
    **dict.fromkeys(("dart", "flutter"), r"pub global activate\b.*(-s ?git|--source[= ]git)\b"),
    "asdf": r"plugin[- ]add \S+ \S",
    "kubectl": r"krew install\b.*--manifest",
}
_PATTERNS = {name: re.compile(text) for name, text in _FROM.items()}
PROGRAMS = frozenset(_FROM)


def foreign(text: str, *, package: bool = False) -> bool:
    """Whether a word names what lies at an address; `package`: it stands where a package's name is expected."""
    return ADDRESSED.match(text) is not None or (package and _SHORT.match(text) is not None)


def asked(call: ProgramCall) -> None:
    """Say that it runs what an address names. In a sandbox the connection itself is asked about."""
    call.add_effect(EffectKind.FETCHES)
    call.ask("runs-fetched", RUNS, contained=True)


def before(rule: Rule | None) -> Rule:
    """A rule that looks at addresses first."""

    def judge(call: ProgramCall) -> ShellStream | None:
        if _PATTERNS[call.name].match(" ".join(call.args[:40])):
            asked(call)
        if rule is None:
            call.add_effect(EffectKind.RUNS, (call.cwd,))
            return None
        return rule(call)

    return judge
