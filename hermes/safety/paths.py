"""The paths that tools may not write, and those that they may not read; the folders on which these rules depend.

Paths come in resolved; nothing is opened here.
"""

import fnmatch
import os.path
import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from hermes.safety.autorun_files import OBEYED_REASON, is_never_written
from hermes.safety.home_places import (
    AGENT_FOLDERS,
    APP_FOLDERS,
    CLOSED_FILES,
    CLOSED_FOLDERS,
    KEY_FOLDERS,
    PROGRAM_FOLDERS,
    SECRET_PLACES,
    START_FILES,
    START_FOLDERS,
    TOOL_CHAINS,
)
from hermes.util.text import compile_late


class Places(Struct, frozen=True, kw_only=True):
    """The folders on which the safety rules depend, all absolute and resolved.

    `hermes` is the Hermes home; `own` are folders inside protected ones that tools may use (results spilled to files).
    `foreign`: the session belongs to a person who is not the owner, so the owner's memories are closed. `confined`:
    nothing of this machine outside of the workspace may be seen.
    """

    home: str
    hermes: str
    workspace: str
    own: tuple[str, ...] = ()
    other_homes: tuple[str, ...] = ()
    """More homes of people on this machine: of the account when `HOME` names another one, and of others."""
    hermes_homes: tuple[str, ...] = ()
    """All homes of Hermes that are known, wherever they lie."""
    programs: tuple[str, ...] = ()
    """The folders of PATH that lie in the person's home."""
    hook_files: tuple[str, ...] = ()
    """The files that the person's hooks run, which no session writes."""
    foreign: bool = False
    confined: bool = False

    def expand_path(self, path: str, cwd: str) -> str:
        """Return an absolute path: `~` is the person's home, relative means below `cwd`. `..` is left standing."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return os.path.join(cwd, path if path[:2] != "//" else f"/{path.lstrip('/')}")


_SYSTEM = str.split("""
    /etc /boot /usr /bin /sbin /lib /lib32 /lib64 /dev /proc /sys /run /opt/homebrew/etc /var/spool/cron /var/lib
    /var/run /var/log /var/cache /System /Library /private/etc /private/var/db /snap /nix/store /efi
""")
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - a rule names it
_HARMLESS_DEVICES = str.split("/dev/null /dev/stdout /dev/stderr /dev/zero /dev/tty")
_PROJECT_SECRET = compile_late(
    r"/(\.env(\.(?!(?:[\w-]+\.)?(?:example|sample|template|tmpl|dist|defaults?|schema|vault)$)[\w.-]+)?"
    r"|terraform\.tfstate(\.[\w.]+)?|[^/]+\.tfstate(\.backup)?|\.netrc|\.pgpass|\.git-credentials|\.pypirc"
    r"|\.htpasswd|(?!cacert\.)[^/]+\.(pem|ppk|jks|keystore)|\.vault-token|\.vault_pass(word)?(\.txt)?|(aws-?)?credentials\.csv|master\.key)$"
)
_SSH_PUBLIC = compile_late(r"/\.ssh/([^/]+\.pub|known_hosts)$")
_OPEN_HERMES = str.split("SOUL.md skills memories plugins media")
"""Names that tools may read in Hermes' own folder; the rest is settings, keys, and other sessions' content."""
_SECRET_SYSTEM = str.split("""
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssl/private
    /etc/krb5.keytab /etc/security/opasswd /etc/master.passwd /etc/wireguard /etc/NetworkManager/system-connections
    /etc/kubernetes /etc/mysql/debian.cnf /etc/rancher /etc/docker/key.json /etc/ppp/chap-secrets
    /etc/ipsec.secrets /run/secrets /var/run/secrets /var/lib/docker /var/lib/kubelet /var/lib/sss/secrets
    /root/.ssh /root/.aws
""")
_SECRET_FILES = str.split(
    "/etc/shadow /etc/gshadow /etc/sudoers /etc/passwd /etc/group /etc/crontab /etc/hosts /etc/profile"
)
_SECRET_NAME = compile_late(r"/(id_(rsa|dsa|ecdsa|ed25519)(_sk)?|ssh_host_\w+_key|[^/]+\.(keytab|kdbx|p12|pfx))$")
_SECRET_PROC = compile_late(
    r"^/proc/[^/]+/(task/[^/]+/)?(environ|mem|auxv|maps|smaps|pagemap|stack|syscall|fdinfo/|map_files/|fd/|root(/|$)|cwd(/|$))|"
    r"^/proc/(k(msg|core|allsyms)|sysrq-trigger|keys)|^/sys/kernel/(debug|tracing)/"
)
_SECRET_BELOW = frozenset(SECRET_PLACES)
HOME_FOLDERS = re.compile(r"^(/home/[^/]+|/root|/Users/[^/]+|/var/root)(?=/|$)")
_TOOL_CHAINS = frozenset(TOOL_CHAINS)
_START_PLACES = frozenset((*START_FILES, *START_FOLDERS))
COPY_SIGN = re.compile(r"(?<![\W_])[\W_]+(?:backup|bak|copy|old|orig|saved?)\d*\b|(?<!~)~+$", re.IGNORECASE)
_START_PARENTS = {one[: at.start()] for one in (*CLOSED_FOLDERS, *CLOSED_FILES) for at in re.finditer("/", one)}
_KEY_NAMES = frozenset(place.rpartition("/")[2].lstrip(".").lower() for place in KEY_FOLDERS)
_BY_NAME = (
    (_SECRET_NAME, "it is a private key"),
    (_PROJECT_SECRET, "it holds the project's keys: tell the person what to change in it"),
)
_SYSTEM_ROOTS, _SECRET_ROOTS = frozenset(_SYSTEM), frozenset(_SECRET_SYSTEM)
_TOP_FOLDERS = str.split("""
    / /bin /boot /dev /etc /home /lib /lib32 /lib64 /opt /proc /root /sbin /srv /sys /usr /var /System /Library
    /Users /Applications /usr/bin /usr/lib /usr/local /var/lib /etc/ssh
""")
_KEYS_REASON = "it holds keys or passwords"
OWN_STATE_REASON = "it is Hermes' own: settings, keys and the conversations of other sessions"
CONFINED_REASON = "it is outside this person's folder"
_WORKSPACE_FOLDERS = ("workspace", "people")
"""Folders of Hermes' own in which sessions work: of its owner, and of each person who talks from a chat."""
_JUDGED_PATHS = 512
"""Judgements by the names alone that are kept: one call judges a path four times on its way to the disk."""


@lru_cache(maxsize=_JUDGED_PATHS)
def write_refusal(path: str, places: Places, *, asked: bool = False) -> str:
    """Return why `path` (absolute, resolved) may not be written; empty when it may.

    `asked`: a person is asked about files of the workspace that hold its keys, such as `.env`, so that is no reason.
    """
    if path in _HARMLESS_DEVICES or path.startswith(_SHARED_MEMORY) or _is_inside(path, places.own):
        return ""
    if elsewhere := _owner_refusal(path, places):
        return elsewhere
    below = _path_below(path, places.home)
    if below is not None and (_is_among(below, CLOSED_FOLDERS) or below in CLOSED_FILES):
        return "it holds keys or runs at the start of other programs"
    is_ours = _is_inside(path, (places.workspace,))
    if named := _name_refusal(path, asked=asked and is_ours):
        return named
    return "it belongs to the system" if _is_among(path, _SYSTEM_ROOTS) and not is_ours else ""


def is_in_own_workspace(path: str, places: Places) -> bool:
    """Return whether a path is the workspace's, which is one of the folders that Hermes keeps for that."""
    is_own = any(is_or_below(places.workspace, f"{places.hermes}/{name}") for name in _WORKSPACE_FOLDERS)
    return is_own and _is_inside(path, (places.workspace,))


def has_start_files_below(path: str, places: Places) -> bool:
    """Return whether files that run at the start of other programs, or hold keys, would lie below a folder
    of the home.
    """
    return _path_below(path, places.home) in _START_PARENTS


def _name_refusal(path: str, *, asked: bool) -> str:
    if is_never_written(path):
        return OBEYED_REASON
    found = (why for pattern, why in _BY_NAME if not (asked and pattern is _PROJECT_SECRET) and pattern.search(path))
    return next(found, "")


@lru_cache(maxsize=_JUDGED_PATHS)
def read_refusal(path: str, places: Places) -> str:
    """Return why `path` (absolute, resolved) may not be read; empty when it may."""
    if _is_inside(path, places.own):
        return ""
    if places.confined and path != "/dev/null" and not _is_inside(path, (places.workspace,)):
        return CONFINED_REASON
    hermes = _own_state_refusal(path, places)
    if hermes is not None:
        return hermes
    if _is_key_path(path, places):
        return _KEYS_REASON
    if path.startswith("/dev/") and path != "/dev/null" and not path.startswith(_SHARED_MEMORY):
        return "it is a device"
    return "it shows the inside of running programs" if _SECRET_PROC.search(path) else ""


def is_home_entry(path: str, places: Places, *, of_start: bool = True) -> bool:
    """Return whether a path (absolute, resolved) lies in what a home keeps for programs: behind a name with a dot, in a
    folder of theirs, or in a copy of one, other than tool chains and the workspace.

    `of_start`: what programs obey when they start counts, too; without that only the histories beside it do.
    """
    if is_or_below(path, places.workspace) and not is_or_below(places.home, places.workspace):
        return False
    below = _below_home(path, places)
    if not _is_program_name(below.partition("/")[0]):
        return False
    is_kept = of_start or not _is_among(below, _START_PLACES) or "history" in below.rpartition("/")[2].lower()
    return is_kept and not _is_among(below, _TOOL_CHAINS)


def _below_home(path: str, places: Places) -> str:
    """Return the part of a path below the home that it lies in; empty where it lies in none."""
    found = HOME_FOLDERS.match(path)
    homes = (places.home, *places.other_homes, *([found[0]] if found else ()))
    return next((path[len(one) + 1 :] for one in homes if path.startswith(f"{one}/")), "")


def _is_program_name(name: str) -> bool:
    """Return whether an entry of a home is a program's: it has a dot, is a folder of theirs, or a copy of one."""
    copied = COPY_SIGN.split(name)[0].lower()
    return name.startswith(".") or name in PROGRAM_FOLDERS or (copied in _KEY_NAMES and len(copied) < len(name))


def holds_home(path: str, places: Places) -> bool:
    """Return whether a home lies in a path (absolute, resolved), or is one as a whole."""
    found = HOME_FOLDERS.fullmatch(path) is not None or path in ("/", "/home", "/Users", "/var")
    return found or any(is_or_below(one, path) for one in (places.home, *places.other_homes))


def _owner_refusal(path: str, places: Places) -> str:
    """Return why this session does not write a path: it is Hermes' own, or not the person's."""
    if places.confined and not _is_inside(path, (places.workspace,)):
        return CONFINED_REASON
    if path in places.hook_files:
        return "a hook of the person's runs it"
    if _is_inside(path, (places.hermes,)) and not is_in_own_workspace(path, places):
        return "it belongs to Hermes' own settings and state"
    if any(_is_inside(path, (one,)) and not _is_in_workspace(path, one, places) for one in places.hermes_homes):
        return "it belongs to Hermes' own settings and state"
    return ""


def _own_state_refusal(path: str, places: Places) -> str | None:
    """Return why a path in Hermes' own folder may not be read, empty when it may; None for a path outside of it."""
    for folder in _hermes_homes(places):
        hermes = _path_below(path, folder)
        if hermes is not None:
            opened = folder == places.hermes and _is_inside(hermes, _readable_names(places))
            return "" if opened or _is_in_workspace(path, folder, places) else OWN_STATE_REASON
    return None


def _readable_names(places: Places) -> tuple[str, ...]:
    """Return the names that may be read in Hermes' own folder: the memories, and the files sent to it, only for its
    owner.
    """
    return tuple(one for one in _OPEN_HERMES if not places.foreign or one not in ("memories", "media"))


def _is_in_workspace(path: str, folder: str, places: Places) -> bool:
    """Return whether a path is the workspace's, which lies in `folder`: who works there has chosen to."""
    return _path_below(places.workspace, folder) is not None and _is_inside(path, (places.workspace,))


def iter_guarded_files(places: Places) -> Iterator[str]:
    """Yield files that stay protected under a second name of the same file."""
    yield from (f"{places.home}/{name}" for name in sorted(CLOSED_FILES))
    yield from _SECRET_FILES


def iter_guarded_folders(places: Places) -> Iterator[str]:
    """Yield folders all of whose files stay protected under a second name."""
    yield places.hermes
    obeyed = (".config/autostart", ".config/systemd", ".config/fish")
    yield from (f"{places.home}/{name}" for name in (*KEY_FOLDERS, ".hermes", *AGENT_FOLDERS, *obeyed, *APP_FOLDERS))


@lru_cache(maxsize=8)
def list_secret_paths(places: Places) -> tuple[str, ...]:
    """Return the folders and files that commands may not read, except `list_readable_paths`: keys, and Hermes' own."""
    people = (places.home, *places.other_homes)
    return (
        *_hermes_homes(places),
        *(f"{home}/.hermes" for home in places.other_homes),
        *(f"{home}/{name}" for home in people for name in SECRET_PLACES),
        *_SECRET_SYSTEM,
    )


def _hermes_homes(places: Places) -> tuple[str, ...]:
    """Return the homes of Hermes: this one, the default one, in which profiles lie, and those that are known."""
    return tuple(dict.fromkeys((places.hermes, f"{places.home}/.hermes", *places.hermes_homes)))


def list_readable_paths(places: Places) -> tuple[str, ...]:
    """Return the paths that may be read inside `list_secret_paths`; for `.ssh` see `is_ssh_public`."""
    return (*(f"{places.hermes}/{name}" for name in _readable_names(places)), *places.own)


def is_ssh_public(path: str) -> bool:
    """Return whether this is one of the files in `.ssh` that hold no key."""
    return _SSH_PUBLIC.search(path) is not None


def is_key_name(path: str) -> bool:
    """Return whether a file holds keys, by its name, wherever it lies."""
    return _SECRET_NAME.search(path) is not None or _PROJECT_SECRET.search(path) is not None


def expand_to_protected(path: str, places: Places) -> str:
    """Return a path with wildcards, with the protected folder or file that it may match written out, if
    there is one.
    """
    parts = path.split("/")
    for target in list_secret_paths(places):
        wanted = target.split("/")
        if len(wanted) <= len(parts) and all(map(_can_match, wanted, parts)):
            return "/".join([*wanted, *parts[len(wanted) :]])
    return path


def _can_match(name: str, pattern: str) -> bool:
    """Return whether a shell may match `pattern` with `name`; a wildcard at its beginning matches no dot."""
    is_hidden = name.startswith(".") and not pattern.startswith((".", "["))
    return name == pattern or (fnmatch.fnmatchcase(name, pattern) and not is_hidden)


def is_root_like(path: str, places: Places) -> bool:
    """Return whether losing `path` as a whole would lose the system or the person's home."""
    path = os.path.normpath(path.rstrip("*").rstrip("/") or "/")
    return path in _TOP_FOLDERS or path == places.home or places.home.startswith(path + "/")


def _is_key_path(path: str, places: Places) -> bool:
    for home in (places.home, *places.other_homes):
        below = _path_below(path, home)
        if below is not None and _is_among(below, _SECRET_BELOW) and not _SSH_PUBLIC.search(path):
            return True
    return _is_among(path, _SECRET_ROOTS) or _SECRET_NAME.search(path) is not None


def _path_below(path: str, folder: str) -> str | None:
    """Return the part of `path` below `folder`; None when it is not there."""
    return path[len(folder) + 1 :] if path.startswith(folder + "/") else None


def _is_inside(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _is_among(path: str, names: frozenset[str]) -> bool:
    """Return whether the path, or a folder above it, is one of these."""
    at = path.find("/", 1)
    while at > 0:
        if path[:at] in names:
            return True
        at = path.find("/", at + 1)
    return path in names


def is_or_below(path: str, folder: str) -> bool:
    """Return whether a path is this folder or lies in it, by their names."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
