"""Which paths tools may not write, and which they may not read. Paths come in resolved; nothing is opened here."""

import fnmatch
import os.path
import re

from hermes.safety.places import Places


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SYSTEM = _lines(
    """
    /etc /boot /usr /bin /sbin /lib /lib32 /lib64 /dev /proc /sys /opt/homebrew/etc /var/spool/cron /var/lib /System
    /Library /private/etc
    """
)
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - a rule names it
_HARMLESS_DEVICES = _lines("/dev/null /dev/stdout /dev/stderr /dev/zero /dev/tty")
_HOME_FOLDERS = _lines(
    """
    .ssh .aws .azure .gnupg .kube .docker .password-store .mozilla .pki .bundle .vscode .vim .emacs.d .cargo/bin
    .local/bin .local/lib bin .config/autostart .config/systemd .config/fish .config/git .config/gcloud .config/gh
    .config/rclone .config/nvim .config/environment.d .config/chromium .config/google-chrome .config/pip .config/cron
    Library/LaunchAgents .oh-my-zsh .git-templates
    """
)
_HOME_FILES = _lines(
    """
    .env .netrc .pgpass .my.cnf .pypirc .npmrc .yarnrc .git-credentials .gitconfig .vimrc .exrc .emacs .nanorc .inputrc
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
    .kshrc .cshrc .tcshrc .login .pam_environment .xprofile .xinitrc .xsessionrc .xsession .tmux.conf .screenrc .condarc
    .gemrc .pythonrc .irbrc .psqlrc .sqliterc .mailcap .forward .rhosts .shosts .selected_editor .wgetrc .curlrc .boto
    .s3cfg .terraformrc .vault-token .config/starship.toml .cargo/credentials .cargo/credentials.toml .cargo/config.toml
    """
)
_PROJECT = re.compile(
    r"/\.git/(hooks(/|$)|config$|info/attributes$)|/\.(vscode|idea)/(tasks|launch|settings)\.json$|/\.git$|/\.husky/"
)
_SECRET_HOME = _lines(
    """
    .ssh .aws .azure .gnupg .kube .password-store .mozilla .pki .config/gcloud .config/gh .config/rclone
    .config/chromium .config/google-chrome .docker/config.json .netrc .pgpass .my.cnf .pypirc .npmrc .git-credentials
    .cargo/credentials .cargo/credentials.toml .boto .s3cfg .vault-token .bash_history .zsh_history Library/Keychains
    .local/share/keyrings
    """
)
_SSH_PUBLIC = re.compile(r"/\.ssh/([^/]+\.pub|known_hosts|config)$")
_OPEN_HERMES = _lines("SOUL.md skills memories plugins")
"""What tools may read of Hermes' own folder; all else there is settings, keys, and what other sessions said."""
_SECRET_SYSTEM = _lines("/etc/shadow /etc/gshadow /etc/sudoers /etc/sudoers.d /etc/ssl/private /etc/krb5.keytab")
_SECRET_NAME = re.compile(r"/(id_(rsa|dsa|ecdsa|ed25519)(_sk)?|ssh_host_\w+_key|[^/]+\.(keytab|kdbx|p12|pfx))$")
_SECRET_PROC = re.compile(
    r"^/proc/[^/]+/(task/[^/]+/)?(environ|mem|auxv|maps|fd/|root(/|$)|cwd(/|$))|"
    r"^/proc/k(msg|core|allsyms)|^/sys/kernel/debug/"
)
_TOP = _lines(
    """
    / /bin /boot /dev /etc /home /lib /lib32 /lib64 /opt /proc /root /sbin /srv /sys /usr /var /System /Library /Users
    /Applications /usr/bin /usr/lib /usr/local /var/lib /etc/ssh
    """
)
_KEYS = "it holds keys or passwords"
_OWN = "it is Hermes' own: settings, keys and what was said in other sessions"


def write_refused(path: str, places: Places) -> str:
    """Why `path` (absolute, resolved) may not be written; empty when it may."""
    if path in _HARMLESS_DEVICES or path.startswith(_SHARED_MEMORY) or _inside(path, places.own):
        return ""
    if _inside(path, (places.hermes,)):
        return "it belongs to Hermes' own settings and state"
    below = _below(path, places.home)
    if below is not None and (_inside(below, _HOME_FOLDERS) or below in _HOME_FILES):
        return "it holds keys or runs at the start of other programs"
    if _PROJECT.search(path):
        return "programs such as git or an editor run what it says"
    if _SECRET_NAME.search(path):
        return "it is a private key"
    if _inside(path, _SYSTEM) and not _inside(path, (places.workspace,)):
        return "it belongs to the system"
    return ""


def read_refused(path: str, places: Places) -> str:
    """Why `path` (absolute, resolved) may not be read; empty when it may."""
    if _inside(path, places.own):
        return ""
    hermes = _below(path, places.hermes)
    if hermes is not None:
        worked_in = _below(places.workspace, places.hermes) is not None and _inside(path, (places.workspace,))
        return "" if worked_in or _inside(hermes, _OPEN_HERMES) else _OWN
    if _holds_keys(path, places):
        return _KEYS
    if path.startswith("/dev/") and path != "/dev/null" and not path.startswith(_SHARED_MEMORY):
        return "it is a device"
    return "it shows the inside of running programs" if _SECRET_PROC.search(path) else ""


def secret_places(places: Places) -> tuple[str, ...]:
    """The folders and files that commands may not read, `open_places` aside: keys, and what is Hermes' own."""
    return (places.hermes, *(f"{places.home}/{name}" for name in _SECRET_HOME), *_SECRET_SYSTEM)


def open_places(places: Places) -> tuple[str, ...]:
    """What may be read inside `secret_places`; of `.ssh` see `is_ssh_public`."""
    return (*(f"{places.hermes}/{name}" for name in _OPEN_HERMES), *places.own)


def is_ssh_public(path: str) -> bool:
    """Whether this is one of the files in `.ssh` that hold no key."""
    return _SSH_PUBLIC.search(path) is not None


def reaches(path: str, places: Places) -> str:
    """A path with wildcards, with the protected folder or file written out that it may lead into, if there is one."""
    parts = path.split("/")
    for target in secret_places(places):
        wanted = target.split("/")
        if len(wanted) <= len(parts) and all(map(_may_be, wanted, parts)):
            return "/".join([*wanted, *parts[len(wanted) :]])
    return path


def _may_be(name: str, pattern: str) -> bool:
    """Whether a shell may take `pattern` for `name`; a wildcard at its beginning stands for no dot."""
    if name == pattern:
        return True
    return fnmatch.fnmatchcase(name, pattern) and not (name.startswith(".") and not pattern.startswith((".", "[")))


def is_root_like(path: str, places: Places) -> bool:
    """Whether losing `path` as a whole would lose the system or the person's home."""
    path = os.path.normpath(path.rstrip("*").rstrip("/") or "/")
    return path in _TOP or path == places.home or places.home.startswith(path + "/")


def _holds_keys(path: str, places: Places) -> bool:
    below = _below(path, places.home)
    if below is not None and _inside(below, _SECRET_HOME) and not _SSH_PUBLIC.search(path):
        return True
    return _inside(path, _SECRET_SYSTEM) or _SECRET_NAME.search(path) is not None


def _below(path: str, folder: str) -> str | None:
    """The part of `path` below `folder`; None when it is not there."""
    return path[len(folder) + 1 :] if path.startswith(folder + "/") else None


def _inside(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)
