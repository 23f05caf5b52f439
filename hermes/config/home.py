"""Where Hermes keeps its things: one folder, `HERMES_HOME`, `~/.hermes` unless told otherwise."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from hermes.config.profiles import profile_home
from hermes.core.errors import ConfigError

_OTHER_PROGRAM = ("state.db", "hermes-agent", "kanban.db", "gateway_state.json", "processes.json")
"""Names that the described system (hermes-agent) leaves in its home and Hermes never makes."""


class Home:
    """The layout of the home. Nothing is created before `ensure`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config_file = root / "config.yaml"
        self.env_file = root / ".env"
        self.auth_file = root / "auth.json"
        self.trust_file = root / "trust.json"
        self.identity_file = root / "SOUL.md"
        self.memories = root / "memories"
        self.people = root / "people"
        """The folders in which sessions of people work who talk from chats, one for each."""
        self.skills = root / "skills"
        self.database = root / "hermes.db"
        self.cache = root / "cache"
        self.logs = root / "logs"
        self.locks = root / "run"
        self.spill = root / "spill"
        self.trajectories = root / "trajectories"
        self.backups = root / "backups"
        self.restoring = root / "restore.json"
        """It is there while what a restore has begun is not finished."""
        self.checkpoints = root / "checkpoints"

    def ensure(self) -> None:
        """Create the home, private to its owner. Raises ConfigError with what to do when that cannot be."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(f"{self.root} is not a folder.", "Set HERMES_HOME to a folder.") from None
        except OSError as error:
            raise ConfigError(
                f"The home {self.root} cannot be created: {error.strerror}.", "Set HERMES_HOME to a folder you own."
            ) from None
        self.check()

    def check(self) -> None:
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
            from hermes.config.restoring import finish

            finish(self.root)

    def foreign(self) -> str:
        """The name of a file that shows that another program keeps its state here too; empty when there is none.

        A home in which Hermes already has its database has been agreed on, and is not asked about again.
        """
        if os.path.exists(self.database):  # unlike the method of a Path, it takes a folder it may not enter for empty
            return ""
        return next((name for name in _OTHER_PROGRAM if os.path.exists(self.root / name)), "")


def folder_of(person: str) -> str:
    """The name of a person's own folder: one plain name whatever their id is, and never that of somebody else."""
    from hashlib import sha256

    shown = re.sub(r"[^A-Za-z0-9]+", "-", person).strip("-")[:40]
    return f"{shown}-{sha256(person.encode()).hexdigest()[:16]}".lstrip("-")


def locate_home(environ: Mapping[str, str]) -> Home:
    """The home that the environment names, that of the profile in use, or the default one. Raises ConfigError."""
    named = environ.get("HERMES_HOME", "")
    if named:
        return Home(Path(named).expanduser().absolute())
    return Home(profile_home(environ))
