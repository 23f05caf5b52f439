"""Cleaned copies of the settings that programs read from a home: what is listed, without keys, helpers and includes.

A copy stands in the place of its file in the sandbox, or a variable leads programs to it. A password in an address is
left out and the address kept: a program that took the public server in place of a private one would fetch what
somebody else published there under the same name.
"""

import contextlib
import fnmatch
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from hermes.execution.git_settings import GitSetting, format_setting, read_parts
from hermes.execution.layout import SettingsCopy
from hermes.execution.sandbox.tmpdir import SandboxTmpdir

_MAX_BYTES = 262_144
_USER_INFO = re.compile(r"(?<=://)[^/\s@'\"]*@")
_SSH_USER = re.compile(r"(?<=ssh://)[\w.-]+@")
_HARMLESS_TEXT = re.compile(
    r"(?is)(?!.*(?:authori[sz]ation|bearer|token|passw|secret|api-?_?key))[^\x00-\x08\x0a-\x1f\x7f$]*"
)
_GIT_KEYS = str.split(
    """
    user.name user.email user.useconfigonly author.name author.email committer.name committer.email advice.* alias.*
    apply.whitespace blame.* branch.autosetupmerge branch.autosetuprebase branch.sort checkout.*
    clone.defaultremotename color.* column.* commit.cleanup commit.status commit.verbose core.abbrev
    core.attributesfile core.autocrlf core.bigfilethreshold core.checkstat core.eol core.excludesfile core.filemode
    core.ignorecase core.logallrefupdates core.longpaths core.precomposeunicode core.preloadindex core.quotepath
    core.safecrlf core.symlinks core.trustctime core.untrackedcache core.whitespace diff.algorithm diff.colormoved
    diff.context diff.indentheuristic diff.interhunkcontext diff.mnemonicprefix diff.noprefix diff.renamelimit
    diff.renames diff.submodule diff.wserrorhighlight feature.* fetch.* format.pretty gc.* grep.* help.*
    http.lowspeedlimit http.lowspeedtime http.postbuffer http.sslcainfo http.sslverify http.version index.*
    init.defaultbranch interactive.singlekey lfs.repositoryformatversion log.* merge.branchdesc merge.conflictstyle
    merge.ff merge.log merge.renamelimit merge.renames merge.stat notes.rewriteref pack.* pretty.* protocol.allow
    protocol.version pull.* push.autosetupremote push.default push.followtags rebase.* remote.pushdefault rerere.*
    safe.directory showbranch.* stash.* status.* submodule.recurse tag.sort transfer.fsckobjects url.insteadof
    url.pushinsteadof versionsort.suffix
    """
)
_GIT_UNUSABLE = frozenset(("log.showsignature", "pack.packobjectshook", "help.browser"))
"""Settings that a pattern would cover, and that need a program or a key."""
_NPM_KEYS = str.split(
    """
    registry @*:registry audit auto-install-peers cache-max color engine-strict fetch-retries fetch-timeout
    foreground-scripts fund hoist-pattern ignore-scripts init-license init-version legacy-peer-deps
    link-workspace-packages loglevel maxsockets node-linker offline omit package-lock prefer-offline prefix progress
    public-hoist-pattern save save-exact save-prefix shamefully-hoist strict-peer-dependencies strict-ssl unicode
    update-notifier
    """
)
_PIP_KEYS = str.split(
    """
    break-system-packages cert constraint default-timeout disable-pip-version-check extra-index-url find-links index-url
    no-binary no-build-isolation no-cache-dir no-compile no-index no-warn-script-location only-binary pre prefer-binary
    progress-bar quiet require-virtualenv retries timeout trusted-host use-feature user verbose
    """
)
_CARGO_KEYS = str.split(
    """
    alias.* build.* cargo-new.* doc.* future-incompat-report.* http.cainfo http.check-revoke http.multiplexing
    http.timeout net.git-fetch-with-cli net.offline net.retry patch.* profile.* registries.*.index registry.default
    resolver.* source.* target.* term.* unstable.*
    """
)
_SSH_KEYS = str.split(
    """
    host hostname user port addressfamily ciphers compression connectionattempts connecttimeout globalknownhostsfile
    hashknownhosts hostkeyalgorithms hostkeyalias kexalgorithms loglevel macs serveralivecountmax serveraliveinterval
    stricthostkeychecking tcpkeepalive updatehostkeys userknownhostsfile
    """
)
UNSIGNED_VARIABLES = {
    "GIT_CONFIG_COUNT": "3",
    **{f"GIT_CONFIG_KEY_{number}": f"{one}.gpgsign" for number, one in enumerate(("commit", "tag", "push"))},
    **{f"GIT_CONFIG_VALUE_{number}": "false" for number in range(3)},
}
"""Variables by which git signs nothing: no key to sign with is in the sandbox."""


class CopiedSettings(Struct, frozen=True):
    """A settings file of the home, and how it is cleaned."""

    place: str
    clean: Callable[[str], str]
    variable: str = ""


def clean_git_settings(text: str) -> str:
    """Return settings of git's with what is listed."""
    lines: list[str] = []
    for one in _list_git_settings(text):
        kind, value = f"{one.section}.{one.key}", one.value if one.value is not None else "true"
        is_program = one.section == "alias" and value.lstrip().startswith("!")
        if _is_listed(kind, _GIT_KEYS) and kind not in _GIT_UNUSABLE and _is_harmless_value(value) and not is_program:
            name = None if one.subsection is None else strip_user_info(one.subsection)
            lines.append(format_setting(structs.replace(one, subsection=name, value=strip_user_info(value))))
    return "".join(lines)


def _list_git_settings(text: str) -> Iterator[GitSetting]:
    return (part.setting for part in read_parts(text) if part.setting is not None)


def _signs_by_itself(text: str) -> bool:
    """Return whether settings of git's make it sign what it records."""
    signing = (one for one in _list_git_settings(text) if one.key in ("gpgsign", "forcesignannotated"))
    return any(one.value is None or one.value.lower() in ("true", "yes", "on", "1") for one in signing)


def clean_npm_settings(text: str) -> str:
    """Return settings of npm's with what is listed."""
    lines: list[str] = []
    for line in text.splitlines():
        name, equals, value = (one.strip() for one in line.partition("="))
        if equals and _is_listed(name.removesuffix("[]"), _NPM_KEYS) and _is_harmless_value(value):
            lines.append(f"{name}={strip_user_info(value)}")
    return "\n".join([*lines, ""])


def clean_pip_settings(text: str) -> str:
    """Return settings of pip's with what is listed."""
    lines: list[str] = []
    is_kept = False
    for line in text.splitlines():
        plain = line.strip()
        if line[:1].isspace() and plain:  # a further line of the value above
            keep = is_kept
        else:
            name = plain.partition("=" if "=" in plain else ":")[0].strip().lower().replace("_", "-")
            is_kept = keep = plain.startswith("[") or _is_listed(name, _PIP_KEYS)
        if keep and plain and _is_harmless_value(plain):
            lines.append(strip_user_info(line.rstrip()))
    return "\n".join([*lines, ""])


def clean_cargo_settings(text: str) -> str:
    """Return settings of cargo's with what is listed; none of a file that is no TOML."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return ""
    lines = (
        f"{'.'.join(map(json.dumps, path))} = {_format_toml(value)}"
        for path, value in _walk_tables(found, ())
        if _is_listed(".".join(path).lower(), _CARGO_KEYS)
    )
    return "\n".join([*lines, ""])


def clean_ssh_settings(text: str) -> str:
    """Return settings of ssh's with what is listed; none of what stands under a `Match`, which may run a program."""
    lines: list[str] = []
    is_match = False
    for line in text.splitlines():
        name = re.split(r"[\s=]", line.strip(), maxsplit=1)[0].lower()
        if name in ("host", "match"):
            is_match = name == "match"
        if not is_match and name in _SSH_KEYS and _is_harmless_value(line):
            lines.append(line)
    return "\n".join([*lines, ""])


_COPIED = (
    CopiedSettings(".gitconfig", clean_git_settings, "GIT_CONFIG_GLOBAL"),
    CopiedSettings(".config/git/config", clean_git_settings, "GIT_CONFIG_GLOBAL"),
    CopiedSettings(".npmrc", clean_npm_settings, "NPM_CONFIG_USERCONFIG"),
    CopiedSettings(".config/pip/pip.conf", clean_pip_settings, "PIP_CONFIG_FILE"),
    CopiedSettings(".pip/pip.conf", clean_pip_settings, "PIP_CONFIG_FILE"),
    CopiedSettings(".cargo/config.toml", clean_cargo_settings),
    CopiedSettings(".cargo/config", clean_cargo_settings),
    CopiedSettings(".ssh/config", clean_ssh_settings),
)
_CARGO_PARTS = ("bin", "registry", "git", "env")


def find_copied_settings(home: str, environment: Mapping[str, str]) -> list[str]:
    """Return the settings files of a home of which commands get a copy."""
    return [path for one in _COPIED if os.path.isfile(path := _locate_settings(one, home, environment))]


def _locate_settings(one: CopiedSettings, home: str, environment: Mapping[str, str]) -> str:
    named = environment.get(one.variable, "") if one.variable else ""
    return named if os.path.isabs(named) else f"{home}/{one.place}"


class SettingsCopies:
    """The cleaned copies of a session, made again when their files have changed."""

    def __init__(self, home: str, environment: Mapping[str, str]) -> None:
        self._places = [_locate_settings(one, home, environment) for one in _COPIED]
        self._made: dict[str, tuple[tuple[int, int], str]] = {}
        self.signing_is_off = False
        """Whether the person has git sign what it records, which it does not in the sandbox."""

    def refresh(self, tmpdir: SandboxTmpdir) -> tuple[SettingsCopy, ...]:
        """Return the copies, as the files are now."""
        folder = tmpdir.settings_folder
        found: list[SettingsCopy] = []
        for number, (one, path) in enumerate(zip(_COPIED, self._places, strict=True)):
            copy = f"{folder}/{number}"
            stamp, text = _read_settings(path)
            if stamp is None or path in (other.path for other in found):
                continue
            if self._made.get(copy) != (stamp, path):
                if one.variable == "GIT_CONFIG_GLOBAL":
                    self.signing_is_off = self.signing_is_off or _signs_by_itself(text)
                with open(copy, "w", encoding="utf-8", opener=_open_private) as file:
                    file.write(one.clean(text))
                self._made[copy] = stamp, path
            found.append(SettingsCopy(path, copy, one.variable))
        return tuple(found)


def settings_variables(copies: Sequence[SettingsCopy], folder: str) -> dict[str, str]:
    """Return the variables that lead programs to the copies, where nothing can be shown in the place of a file.

    Git obeys one file alone then, so its copies are joined; cargo has no variable for its settings, so it gets a home
    of its own with links to what is in the person's.
    """
    variables = dict(UNSIGNED_VARIABLES) if copies else {}
    for one in copies:
        if one.variable == "GIT_CONFIG_GLOBAL" and one.variable in variables:
            joined = f"{folder}/git"
            texts = [_read_settings(path)[1] for path in (one.copy, variables[one.variable])]
            with open(joined, "w", encoding="utf-8", opener=_open_private) as file:
                file.write("\n".join(texts))
            variables[one.variable] = joined
        elif one.variable:
            variables.setdefault(one.variable, one.copy)
        elif os.path.basename(place := os.path.dirname(one.path)) == ".cargo":
            own = f"{folder}/cargo"
            os.makedirs(own, mode=0o700, exist_ok=True)
            for name, target in (*((part, f"{place}/{part}") for part in _CARGO_PARTS), ("config.toml", one.copy)):
                with contextlib.suppress(FileExistsError):
                    os.symlink(target, f"{own}/{name}")
            variables["CARGO_HOME"] = own
    return variables


def strip_user_info(text: str) -> str:
    """Return a text without names and passwords in its addresses; a name alone stays where ssh needs it."""
    return _USER_INFO.sub(lambda found: found[0] if _SSH_USER.match(text, found.start()) else "", text)


def _is_listed(name: str, keys: Iterable[str]) -> bool:
    return any(name == one or ("*" in one and fnmatch.fnmatchcase(name, one)) for one in keys)


def _is_harmless_value(value: str) -> bool:
    return _HARMLESS_TEXT.fullmatch(value) is not None


def _walk_tables(table: Mapping[str, object], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _walk_tables(value, (*above, name))
        elif isinstance(value, str | bool | int | float | list):
            yield (*above, name), value


def _format_toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_format_toml(one) for one in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)} = {_format_toml(one)}' for name, one in value.items())}}}"
    return json.dumps(strip_user_info(value) if isinstance(value, str) else value, ensure_ascii=False, default=str)


def _read_settings(path: str) -> tuple[tuple[int, int] | None, str]:
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if stat.S_ISREG(found.st_mode):
                return (found.st_ino, found.st_ctime_ns), file.read(_MAX_BYTES).decode("utf-8", "replace")
    return None, ""


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
