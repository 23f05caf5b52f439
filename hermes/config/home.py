"""The home of Hermes: one folder, `HERMES_HOME`, `~/.hermes` by default."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from hermes.config.profiles import locate_profile_home
from hermes.core.errors import ConfigError

_FOREIGN_FILES = ("state.db", "hermes-agent", "kanban.db", "gateway_state.json", "processes.json")
"""Names of files that another program (hermes-agent) leaves in its home and Hermes never makes."""


class HermesHome:
    """The layout of the home. Nothing is created before `ensure_exists`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config_file = root / "config.yaml"
        self.env_file = root / ".env"
        self.auth_file = root / "auth.json"
        self.trust_file = root / "trust.json"
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
        self.restoring = root / "restore.json"
        """The journal of a restore; it exists until the restore is finished."""
        self.checkpoints = root / "checkpoints"

    def ensure_exists(self) -> None:
        """Create the home, private to its owner. Raises ConfigError with what to do when that cannot be."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(f"{self.root} is not a folder.", "Set HERMES_HOME to a folder.") from None
        except OSError as error:
            raise ConfigError(
                f"The home {self.root} cannot be created: {error.strerror}.", "Set HERMES_HOME to a folder you own."
            ) from None
        self.check_usable()

    def check_usable(self) -> None:
        """Raise ConfigError when the home is there and cannot be used; one that is not there is fine."""
        try:
            os.stat(self.root)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(
                f"The home {self.root} cannot be reached: {error.strerror}.", "Set HERMES_HOME to a folder you own."
            ) from None
        if not os.access(self.root, os.R_OK | os.W_OK | os.X_OK):
            raise ConfigError(
                f"The home {self.root} cannot be read and written.",
                "Mend its permissions (chmod u+rwx) or set HERMES_HOME to another folder.",
            )
        if os.path.exists(self.restoring):
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
    if named:
        return HermesHome(Path(named).expanduser().absolute())
    return HermesHome(locate_profile_home(environ))
