"""Detects homes of other agents."""

from collections.abc import Mapping
from pathlib import Path

from hermes.admin.migrate.agent_home import AgentHome
from hermes.admin.migrate.claw_home import CONFIG_NAMES, ClawHome
from hermes.admin.migrate.foreign_home import ForeignHome
from hermes.config.home import locate_home
from hermes.core.errors import NotFoundError
from hermes.i18n.messages import N_


def find_foreign_homes(environ: Mapping[str, str]) -> list[ForeignHome]:
    """Find homes at their usual places: our own folder, `~/.hermes`, `~/.openclaw` and `~/.clawdbot`."""
    home = locate_home(environ)
    person = Path(environ.get("HOME") or "/")
    named = environ.get("OPENCLAW_STATE_DIR", "")
    places = [
        home.root,
        person / ".hermes",
        *([Path(named)] if named else []),
        person / ".openclaw",
        person / ".clawdbot",
    ]
    found: dict[Path, ForeignHome] = {}
    for place in places:
        one = _detect_home(place, home.root, person)
        if one is not None:
            found.setdefault(place.resolve(), one)
    return list(found.values())


def open_foreign_home(environ: Mapping[str, str], path: Path) -> ForeignHome:
    """Return the home in a folder. Raises NotFoundError for a folder of an unknown kind."""
    found = _detect_home(path.expanduser().absolute(), locate_home(environ).root, Path(environ.get("HOME") or "/"))
    if found is None:
        raise NotFoundError(
            N_("{path} is no home of hermes-agent or OpenClaw.", path=path),
            N_("One has a state.db, the other an openclaw.json."),
        )
    return found


def _detect_home(place: Path, own: Path, person: Path) -> ForeignHome | None:
    try:
        if (place / "state.db").is_file():
            return AgentHome(place, same=place.resolve() == own.resolve())
        if any((place / name).is_file() for name in CONFIG_NAMES) and place.resolve() != own.resolve():
            return ClawHome(place, person)
    except OSError:
        return None
    return None
