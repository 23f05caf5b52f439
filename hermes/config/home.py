"""The home of Hermes: one folder, `HERMES_HOME`, `~/.hermes` by default.

Profiles: several homes of one person, each a folder of `~/.hermes/profiles`, and which of them is used.

`HERMES_HOME` comes first, then `-p NAME` (`HERMES_PROFILE`), then the choice of `hermes profile use`.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from hermes.config.environment import select_setting_variables
from hermes.config.known_homes import locate_known_homes, record_home
from hermes.core.errors import ConfigError, UsageError
from hermes.i18n.messages import N_
from hermes.util.localizable import join_localizable

DEFAULT_PROFILE = "default"
"""The name of the home that is no profile: `~/.hermes` itself."""


PROFILE_VARIABLE = "HERMES_PROFILE"


_PROFILE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)


_CHOICE_FILE = "active_profile"


_PROFILES_FOLDER = "profiles"


def locate_base_folder(environ: Mapping[str, str]) -> Path:
    """Return `~/.hermes`, under which the profiles lie, whatever HERMES_HOME says. Raises ConfigError."""
    try:
        return Path(environ.get("HOME") or Path.home()) / ".hermes"
    except RuntimeError:
        raise ConfigError(N_("No home folder is known."), N_("Set HERMES_HOME to a folder.")) from None


def check_profile_name(name: str) -> str:
    """Return the name if it can be a profile's. Raises UsageError."""
    if not _PROFILE_NAME.fullmatch(name):
        raise UsageError(
            N_("{name!r} cannot be a profile's name.", name=name[:80]),
            N_("Use small letters, digits, `_` and `-`, 64 at most, a letter or a digit first."),
        )
    return name


def profile_folder(base: Path, name: str) -> Path:
    """Return the folder of a profile, existing or not; the default one is the base itself."""
    return base if name == DEFAULT_PROFILE else base / _PROFILES_FOLDER / name


def list_profiles(base: Path) -> list[str]:
    """Return the profiles there are, sorted, the default one first."""
    try:
        found = sorted(
            one.name
            for one in os.scandir(base / _PROFILES_FOLDER)
            if one.is_dir() and _PROFILE_NAME.fullmatch(one.name)
        )
    except (FileNotFoundError, NotADirectoryError):
        found = []
    return [DEFAULT_PROFILE, *(name for name in found if name != DEFAULT_PROFILE)]


def read_chosen_profile(base: Path) -> str:
    """Return the profile that `hermes profile use` has chosen. Raises ConfigError for a file that cannot be
    read.
    """
    try:
        with open(base / _CHOICE_FILE, encoding="utf-8", errors="replace") as file:
            return file.read(200).strip() or DEFAULT_PROFILE
    except (FileNotFoundError, NotADirectoryError):
        return DEFAULT_PROFILE
    except OSError as error:
        raise ConfigError(
            N_("{file} cannot be read: {reason}.", file=base / _CHOICE_FILE, reason=error.strerror),
            N_("Fix its permissions, or remove it."),
        ) from None


def choose_profile(base: Path, name: str) -> None:
    """Use this profile from now on, wherever no other is named."""
    if name == DEFAULT_PROFILE:
        (base / _CHOICE_FILE).unlink(missing_ok=True)
    else:
        from hermes.util.atomic_write import write_atomic

        write_atomic(base / _CHOICE_FILE, f"{name}\n".encode(), mode=0o600)


def locate_profile_home(environ: Mapping[str, str]) -> Path:
    """Return the home of the profile that is to be used. Raises UsageError for a name that is none, and
    ConfigError.
    """
    base = locate_base_folder(environ)
    named = environ.get(PROFILE_VARIABLE, "")
    name = named or read_chosen_profile(base)
    if name == DEFAULT_PROFILE:
        return base
    folder = profile_folder(base, check_profile_name(name))
    if not folder.is_dir():
        from hermes.plugins import suggest_name

        hint = suggest_name(name, list_profiles(base))
        if not hint:
            listed = N_("`hermes profile list` shows those there are.")
            # Behind `-p`, a name that is near no profile may have been meant as a prompt.
            hint = join_localizable(" ", (listed, N_("To ask something: -z TEXT."))) if named else listed
        raise ConfigError(N_("There is no profile {name!r}.", name=name), hint)
    return folder


def find_current_profile(environ: Mapping[str, str]) -> str:
    """Return the name of the profile that is used; empty where HERMES_HOME names a folder that is none of them."""
    base, named = locate_base_folder(environ), environ.get("HERMES_HOME", "")
    if not named:
        return environ.get(PROFILE_VARIABLE, "") or read_chosen_profile(base)
    root = Path(named).expanduser().absolute()
    return next((name for name in list_profiles(base) if profile_folder(base, name) == root), "")


_FOREIGN_FILES = ("state.db", "hermes-agent", "kanban.db", "gateway_state.json", "processes.json")
"""Names of files that another program (hermes-agent) leaves in its home and Hermes never makes."""


class HermesHome:
    """The layout of the home. Nothing is created before `ensure_exists`, which adds it to the list `known_homes`."""

    def __init__(
        self, root: Path, known_homes: Path | None = None, setting_variables: Mapping[str, str] | None = None
    ) -> None:
        self.root = root
        self.setting_variables = setting_variables or {}
        """The variables of the process that stand for settings."""
        self._known_homes = known_homes
        self.config_file = root / "config.yaml"
        self.env_file = root / ".env"
        self.auth_file = root / "auth.json"
        self.oauth_file = root / "oauth.json"
        """The tokens of sign-ins; it is in no backup."""
        self.trust_file = root / "trust.json"
        self.consent_file = root / "plugins.json"
        """What the person has enabled of other people's code (`PluginConsents`)."""
        self.hook_log = root / "logs" / "hooks.jsonl"
        self.models_file = root / "models.json"
        self.favourites_file = root / "favourite_models.json"
        """Windows and prices that were taken over from a list."""
        self.identity_file = root / "SOUL.md"
        self.memories = root / "memories"
        self.people = root / "people"
        """The folder that holds a working folder for each person who talks from chats."""
        self.skills = root / "skills"
        self.database = root / "hermes.db"
        self.cache = root / "cache"
        self.logs = root / "logs"
        self.locks = root / "run"
        self.spill = root / "spill"
        self.trajectories = root / "trajectories"
        self.backups = root / "backups"
        self.browser = root / "browser"
        """The folder of the browser's kept profile: cookies and passwords, which are in no backup."""
        self.restoring = root / "restore.json"
        """The journal of a restore; it exists until the restore is finished."""
        self.checkpoints = root / "checkpoints"
        self.code_key = root / "code.key"
        """The key by which stored runs of code are proved."""

    def ensure_exists(self) -> None:
        """Create the home, private to its owner. Raises ConfigError with what to do when that cannot be."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(N_("{root} is not a folder.", root=self.root), "Set HERMES_HOME to a folder.") from None
        except OSError as error:
            raise ConfigError(
                N_("The home {root} cannot be created: {strerror}.", root=self.root, strerror=error.strerror),
                "Set HERMES_HOME to a folder you own.",
            ) from None
        self.check_usable()
        if self._known_homes is not None:
            record_home(self._known_homes, self.root)

    @property
    def is_writable(self) -> bool:
        """Whether files can be made in the home, as far as its permissions and its file system say."""
        return os.access(self.root, os.W_OK | os.X_OK)

    def check_usable(self, *, writes: bool = True) -> None:
        """Raise ConfigError when the home is there and cannot be used; one that is not there is fine.

        With `writes` off, one that can only be read can be used.
        """
        try:
            os.stat(self.root)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(
                N_("The home {root} cannot be reached: {strerror}.", root=self.root, strerror=error.strerror),
                "Set HERMES_HOME to a folder you own.",
            ) from None
        if not os.access(self.root, os.R_OK | os.X_OK) or (writes and not self.is_writable):
            if _is_read_only_mount(self.root):
                raise ConfigError(
                    N_("The home {root} is on a file system that is read-only.", root=self.root),
                    N_("Often its disk fails: `hermes backup FILE` and `hermes sessions export` still read it."),
                )
            raise ConfigError(
                N_("The home {root} cannot be read and written.", root=self.root),
                "Fix its permissions (chmod u+rwx) or set HERMES_HOME to another folder.",
            )
        if os.path.exists(self.restoring) and self.is_writable:
            from hermes.config.restore_journal import finish_restore

            finish_restore(self.root)

    def find_foreign_file(self) -> str:
        """Return the name of a file that shows that another program keeps its state here too; empty when there is
        none.

        A home in which Hermes already has its database has been agreed on, and is not asked about again.
        """
        if os.path.exists(self.database):  # unlike the method of a Path, it takes a folder it may not enter for empty
            return ""
        return next((name for name in _FOREIGN_FILES if os.path.exists(self.root / name)), "")


def _is_read_only_mount(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def person_folder_name(person: str) -> str:
    """Return the name of a person's own folder: one plain name whatever the id is, unique to the person."""
    from hashlib import sha256

    shown = re.sub(r"[^A-Za-z0-9]+", "-", person).strip("-")[:40]
    return f"{shown}-{sha256(person.encode()).hexdigest()[:16]}".lstrip("-")


def locate_home(environ: Mapping[str, str]) -> HermesHome:
    """Return the home that the environment names, that of the profile in use, or the default one. Raises
    ConfigError.
    """
    named = environ.get("HERMES_HOME", "")
    root = Path(named).expanduser().absolute() if named else locate_profile_home(environ)
    return HermesHome(root, locate_known_homes(environ), select_setting_variables(environ))
