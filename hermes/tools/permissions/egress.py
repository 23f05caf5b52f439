"""Which hosts commands reach, by the names that people know, and which files they would send there."""

import os
import re
from collections.abc import Iterator, Sequence

from msgspec import structs

from hermes.safety.globs import spelled
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import Effect, EffectKind, Finding, Judgement, Simple, Verdict
from hermes.tools.session import ToolContext

LEAVES = (EffectKind.SENDS, EffectKind.FETCHES)
_REGISTRY = "registry"
_REGISTRIES = {
    **dict.fromkeys(("pip", "pip3", "pipx", "uv", "uvx", "poetry", "pdm", "pipenv", "hatch", "rye"), "pypi.org"),
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "pnpx", "bun", "bunx"), "registry.npmjs.org"),
    **dict.fromkeys(("gem", "bundle"), "rubygems.org"),
    **dict.fromkeys(("conda", "mamba", "micromamba"), "conda.anaconda.org"),
    "cargo": "crates.io",
    "go": "proxy.golang.org",
    "composer": "packagist.org",
    "brew": "formulae.brew.sh",
}
"""Where package programs get their packages, when nobody has told them otherwise."""
_STAYS_HERE = ("--no-index", "--offline")
_READ_FROM = ("-r", "--requirement", "-c", "--constraint")
_ADDRESS = re.compile(r"[a-z+]+://(?:[^/@\s]*@)?([\w.-]+)")
_REMOTE = re.compile(r"(?m)^\s*\[remote \"([^\"\n]+)\"\]\s*$")
_URL = re.compile(r"(?m)^\s*(pushurl|url)\s*=\s*(\S+)")
_HOST = re.compile(r"(?:\w+://)?(?:[^@/]*@)?([\w.-]+)[:/]")
_LARGEST = 65_536
_ASKED_BY_SIGN = frozenset({"curl", "wget", "wget2", "http", "https", "xh"})
"""Programs that send the files which stand behind `@`, and behind few options."""
_UPLOADS = frozenset({"-T", "--upload-file", "--post-file", "--body-file"})
_NOT_SENT = frozenset({"-i", "-F", "-o", "-e", "--rsh", "-J", "-S", "--password-file", "--exclude-from", "--log-file"})
"""Options of `scp`, `rsync` and their kin whose file is theirs, not the other host's."""
_HANDS_ON = frozenset({"<", "cat", "tar", "zip", "gzip", "base64", "head", "tail", "xz", "zstd", "openssl", "gpg"})
"""Programs whose output is what they were given."""
_NOBODYS = ("/tmp", "/var/tmp", "/dev", "/proc", "/usr", "/bin")  # noqa: S108 - a rule names them
_HERE = re.compile(r"(localhost|127\.[\d.]+|\[?::1\]?|0\.0\.0\.0)(:\d+)?$|[/.]")
_LONGEST_PATH = 4_096
_SHOWN = 3


def told(judged: Judgement, context: ToolContext) -> tuple[Effect, ...]:
    """The effects of a line, with what they reach by name.

    A package program may have been told of another registry by a file or a variable, so its name has the program
    behind it, `pypi.org(pip)`, which no pattern of a host covers.
    """
    found: list[Effect] = []
    for effect in judged.effects:
        if effect.kind not in LEAVES or not effect.argv:
            found.append(effect)
            continue
        targets = _remote(effect, judged, context) if effect.argv[0] == "git" else _registry(effect)
        if targets or not effect.targets:
            found.append(structs.replace(effect, targets=targets))
    return tuple(found)


def plain_host(target: str) -> str:
    """The host that a name stands for."""
    return target.partition("(")[0]


def _registry(effect: Effect) -> tuple[str, ...]:
    if _REGISTRY not in effect.targets:
        return effect.targets
    program = effect.argv[0].rpartition("/")[2]
    hosts = [match[1] for word in effect.argv[1:] for match in _ADDRESS.finditer(word)]
    others = tuple(one for one in effect.targets if one != _REGISTRY)
    if not hosts and _stays_here(effect.argv):
        return others
    named = [f"{one}({program})" for one in hosts or [_REGISTRIES.get(program, "packages")]]
    return (*dict.fromkeys(named), *others)


def _stays_here(argv: Sequence[str]) -> bool:
    """Whether a package program was told to use what is there; a list of packages may name addresses all the same."""
    return any(word in _STAYS_HERE for word in argv) and not any(word in _READ_FROM for word in argv)


def _remote(effect: Effect, judged: Judgement, context: ToolContext) -> tuple[str, ...]:
    """What a repository's remote stands for; its name where that cannot be told."""
    options = any(word.startswith("-") for word in effect.argv[1:2])  # `-C`, `--git-dir`: another repository
    folders = {one.cwd for one in judged.commands if one.argv[: len(effect.argv)] == effect.argv}
    if options or "GIT_DIR" in context.state.environment or len(folders) != 1:
        return effect.targets
    text = _settings(folders.pop(), context.places.workspace)
    sends = effect.kind is EffectKind.SENDS
    return tuple(one for name in effect.targets for one in _hosts(text, name, sends=sends))


def _hosts(text: str, name: str, *, sends: bool) -> Sequence[str]:
    urls = {} if "." in name or "/" in name else _urls(text, name)
    url = (urls.get("pushurl") if sends else None) or urls.get("url")
    if url is None:
        return (name,)
    if url.startswith(("/", ".", "file://")):
        return ()
    found = _HOST.match(url)
    return (found[1],) if found else (name,)


def _urls(text: str, remote: str) -> dict[str, str]:
    """The addresses of a remote; none where it has several, or settings rewrite addresses."""
    if "insteadof" in text.lower():
        return {}
    for found in _REMOTE.finditer(text):
        if found[1] == remote:
            below = text[found.end() :].partition("\n[")[0]
            pairs = _URL.findall(below)
            return dict(pairs) if len({name for name, _ in pairs}) == len(pairs) else {}
    return {}


def _settings(folder: str, workspace: str) -> str:
    at, root = os.path.realpath(folder), os.path.realpath(workspace)
    while is_or_below(at, root):
        try:
            with open(os.path.join(at, ".git", "config"), encoding="utf-8", errors="replace") as file:
                return file.read(_LARGEST)
        except OSError:
            at = os.path.dirname(at)
    return ""


def sends_outside(judged: Judgement, context: ToolContext) -> Iterator[Finding]:
    """Where a command may read all that the person may, sending files from outside of the workspace asks."""
    sending = {one.argv for one in judged.effects if one.kind is EffectKind.SENDS and not _stays(one)}
    if context.backend.contained or not sending:
        return
    for simple in judged.commands:
        given = _given(simple) if simple.argv in sending or simple.argv[0] in _HANDS_ON else ()
        taken = [path for path in given if _is_outside(path, context)]
        if taken:
            reason = f"it sends {', '.join(taken[:_SHOWN])} to another host"
            yield Finding(Verdict.ASK, "sends-outside", reason, spelled(simple.argv))


def _stays(effect: Effect) -> bool:
    """Whether what is sent stays on this machine."""
    return all(map(_HERE.match, effect.targets))


def _given(simple: Simple) -> Iterator[str]:
    """The files and folders that a command is told to send."""
    name = simple.argv[0].rpartition("/")[2]
    before = ""
    for word in simple.argv[1:]:
        part = word
        if name in _ASKED_BY_SIGN:
            signed = re.search(r"(?:^|=)[@<](.+)", word)
            option = re.match(r"--(?:post-file|body-file|upload-file)=(.+)", word)
            found = signed or option
            part = found[1] if found else word if before in _UPLOADS else ""
        elif before in _NOT_SENT:
            part = ""
        before = word
        if part and part != "-" and len(part) < _LONGEST_PATH and "\0" not in part:
            path = os.path.normpath(os.path.join(simple.cwd, part))
            if os.path.lexists(path):
                yield path


def _is_outside(path: str, context: ToolContext) -> bool:
    """Whether a file is the person's, and not of the work at hand: neither the workspace's, temporary, nor a device."""
    real = os.path.realpath(path)
    nobodys = () if is_or_below(real, context.places.home) else _NOBODYS
    folders = (context.places.workspace, str(context.spill), *nobodys)
    return not any(is_or_below(real, os.path.realpath(one)) for one in folders)
