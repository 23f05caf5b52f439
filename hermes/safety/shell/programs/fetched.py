"""Programs that run, or install, what an address names: unlike a package of a registry, it has no trusted publisher."""

import re

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import EffectKind

RUNS = "it installs and runs a package from an address"
ADDRESSED = re.compile(
    r"(?:\S{1,200}?\s?@\s?)?(?:(?:git|hg|svn|bzr)\+\S|https?://|git@|git://|ssh://|ftp://|"
    r"(?:github|gitlab|bitbucket|gist|sourcehut):)"
)
"""How a package is named by where it lies."""
_SHORT = re.compile(r"[\w.-]+/[\w.-]+(#\S+)?$")
"""Somebody's repository, where a package's name is expected."""


def foreign(text: str, *, package: bool = False) -> bool:
    """Whether a word names what lies at an address; `package`: it stands where a package's name is expected."""
    return ADDRESSED.match(text) is not None or (package and _SHORT.match(text) is not None)


def asked(call: ProgramCall) -> None:
    """Say that it runs what an address names. In a sandbox the connection itself is asked about."""
    call.ask("runs-fetched", RUNS, contained=True, effect=EffectKind.FETCHES)


_VERBS = {"install", "reinstall", "add", "run", "shell", "develop", "build", "activate", "plugin"}
_BY_ADDRESS = re.compile(r"--git\b|--url\b|--source\b|(git|hg)\+|github:|gitlab:|git@|git://|ssh://")


def installs(call: ProgramCall) -> None:
    """Judge any program that is told to install, or run, what lies at an address."""
    verbs = _VERBS.intersection(call.args[:3])
    if (verbs and any(map(_BY_ADDRESS.match, call.args))) or (
        verbs & {"install", "add"} and any(map(foreign, call.args))
    ):
        asked(call)
