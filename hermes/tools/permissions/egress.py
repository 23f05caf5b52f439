"""Finds the hosts that commands reach, by the names that people know, and the files that they would send there."""

import os
import re
from collections.abc import Iterator, Sequence

from msgspec import structs

from hermes.i18n.messages import N_
from hermes.safety.globs import quote_argv
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import (
    CommandEffect,
    CommandFinding,
    CommandJudgement,
    EffectKind,
    SimpleCommand,
    Verdict,
)
from hermes.tools.session import ToolContext

EGRESS_KINDS = (EffectKind.SENDS, EffectKind.FETCHES)
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
"""The hosts from which package programs get their packages, unless another one is configured."""
_OFFLINE_OPTIONS = ("--no-index", "--offline")
_REQUIREMENT_OPTIONS = ("-r", "--requirement", "-c", "--constraint")
_ADDRESS = re.compile(r"[a-z+]+://(?:[^/@\s]*@)?([\w.-]+)")
_REMOTE = re.compile(r"(?m)^\s*\[remote \"([^\"\n]+)\"\]\s*$")
_URL = re.compile(r"(?m)^\s*(pushurl|url)\s*=\s*(\S+)")
_HOST = re.compile(r"(?:\w+://)?(?:[^@/]*@)?([\w.-]+)[:/]")
_MAX_BYTES = 65_536
_AT_SIGN_PROGRAMS = frozenset({"curl", "wget", "wget2", "http", "https", "xh"})
"""Programs that send the files named behind `@`, and behind few options."""
_UPLOAD_OPTIONS = frozenset({"-T", "--upload-file", "--post-file", "--body-file"})
_NOT_SENT_OPTIONS = frozenset(
    {"-i", "-F", "-o", "-e", "--rsh", "-J", "-S", "--password-file", "--exclude-from", "--log-file"}
)
"""Options of `scp`, `rsync` and similar programs whose file is not sent to the other host."""
_PASS_THROUGH_PROGRAMS = frozenset(
    {"<", "cat", "tar", "zip", "gzip", "base64", "head", "tail", "xz", "zstd", "openssl", "gpg"}
)
"""Programs whose output is what they were given."""
_SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev", "/proc", "/usr", "/bin")  # noqa: S108 - a rule names them
_LOCAL_TARGET = re.compile(r"(localhost|127\.[\d.]+|\[?::1\]?|0\.0\.0\.0)(:\d+)?$|[/.]")
_MAX_PATH = 4_096
_MAX_SHOWN = 3


def name_egress_hosts(judged: CommandJudgement, context: ToolContext) -> tuple[CommandEffect, ...]:
    """Return the effects of a line, with the hosts that they reach by name.

    A file or a variable may configure another registry for a package program, so a registry's name has the
    program behind it, `pypi.org(pip)`, which no pattern of a host covers.
    """
    found: list[CommandEffect] = []
    for effect in judged.effects:
        if effect.kind not in EGRESS_KINDS or not effect.argv:
            found.append(effect)
            continue
        targets = (
            _find_remote_targets(effect, judged, context) if effect.argv[0] == "git" else _find_registry_targets(effect)
        )
        if targets or not effect.targets:
            found.append(structs.replace(effect, targets=targets))
    return tuple(found)


def host_from_target(target: str) -> str:
    """Return the host that a target's name stands for."""
    return target.partition("(")[0]


def _find_registry_targets(effect: CommandEffect) -> tuple[str, ...]:
    if _REGISTRY not in effect.targets:
        return effect.targets
    program = effect.argv[0].rpartition("/")[2]
    hosts = [match[1] for word in effect.argv[1:] for match in _ADDRESS.finditer(word)]
    others = tuple(one for one in effect.targets if one != _REGISTRY)
    if not hosts and _is_offline_install(effect.argv):
        return others
    named = [f"{one}({program})" for one in hosts or [_REGISTRIES.get(program, "packages")]]
    return (*dict.fromkeys(named), *others)


def _is_offline_install(argv: Sequence[str]) -> bool:
    """Return whether a package program was told to use what is there; a list of packages may still name addresses."""
    return any(word in _OFFLINE_OPTIONS for word in argv) and not any(word in _REQUIREMENT_OPTIONS for word in argv)


def _find_remote_targets(effect: CommandEffect, judged: CommandJudgement, context: ToolContext) -> tuple[str, ...]:
    """Return the hosts of a repository's remote; its name where they cannot be told."""
    options = any(word.startswith("-") for word in effect.argv[1:2])  # `-C`, `--git-dir`: another repository
    folders = {one.cwd for one in judged.commands if one.argv[: len(effect.argv)] == effect.argv}
    if options or "GIT_DIR" in context.state.environment or len(folders) != 1:
        return effect.targets
    text = _read_git_config(folders.pop(), context.places.workspace)
    sends = effect.kind is EffectKind.SENDS
    return tuple(one for name in effect.targets for one in _find_remote_hosts(text, name, sends=sends))


def _find_remote_hosts(text: str, name: str, *, sends: bool) -> Sequence[str]:
    urls = {} if "." in name or "/" in name else _find_remote_urls(text, name)
    url = (urls.get("pushurl") if sends else None) or urls.get("url")
    if url is None:
        return (name,)
    if url.startswith(("/", ".", "file://")):
        return ()
    found = _HOST.match(url)
    return (found[1],) if found else (name,)


def _find_remote_urls(text: str, remote: str) -> dict[str, str]:
    """Return the addresses of a remote; none where it has several, or settings rewrite addresses."""
    if "insteadof" in text.lower():
        return {}
    for found in _REMOTE.finditer(text):
        if found[1] == remote:
            below = text[found.end() :].partition("\n[")[0]
            pairs = _URL.findall(below)
            return dict(pairs) if len({name for name, _ in pairs}) == len(pairs) else {}
    return {}


def _read_git_config(folder: str, workspace: str) -> str:
    at, root = os.path.realpath(folder), os.path.realpath(workspace)
    while is_or_below(at, root):
        try:
            with open(os.path.join(at, ".git", "config"), encoding="utf-8", errors="replace") as file:
                return file.read(_MAX_BYTES)
        except OSError:
            at = os.path.dirname(at)
    return ""


def find_outside_sends(judged: CommandJudgement, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a finding that asks for each command that sends files from outside of the workspace.

    None where the backend confines what commands can read.
    """
    sending = {one.argv for one in judged.effects if one.kind is EffectKind.SENDS and not _is_local_send(one)}
    if context.backend.contained or not sending:
        return
    for simple in judged.commands:
        given = _find_sent_files(simple) if simple.argv in sending or simple.argv[0] in _PASS_THROUGH_PROGRAMS else ()
        taken = [path for path in given if _is_outside(path, context)]
        if taken:
            reason = N_("it sends {taken} to another host", taken=", ".join(taken[:_MAX_SHOWN]))
            yield CommandFinding(Verdict.ASK, "sends-outside", reason, quote_argv(simple.argv))


def _is_local_send(effect: CommandEffect) -> bool:
    """Return whether what is sent stays on this machine."""
    return all(map(_LOCAL_TARGET.match, effect.targets))


def _find_sent_files(simple: SimpleCommand) -> Iterator[str]:
    """Yield the files and folders that a command is told to send."""
    name = simple.argv[0].rpartition("/")[2]
    before = ""
    for word in simple.argv[1:]:
        part = word
        if name in _AT_SIGN_PROGRAMS:
            signed = re.search(r"(?:^|=)[@<](.+)", word)
            option = re.match(r"--(?:post-file|body-file|upload-file)=(.+)", word)
            found = signed or option
            part = found[1] if found else word if before in _UPLOAD_OPTIONS else ""
        elif before in _NOT_SENT_OPTIONS:
            part = ""
        before = word
        if part and part != "-" and len(part) < _MAX_PATH and "\0" not in part:
            path = os.path.normpath(os.path.join(simple.cwd, part))
            if os.path.lexists(path):
                yield path


def _is_outside(path: str, context: ToolContext) -> bool:
    """Return whether a file is the person's own: not the workspace's, not temporary, and not a device."""
    real = os.path.realpath(path)
    nobodys = () if is_or_below(real, context.places.home) else _SHARED_FOLDERS
    folders = (context.places.workspace, str(context.spill_folder), *nobodys)
    return not any(is_or_below(real, os.path.realpath(one)) for one in folders)
