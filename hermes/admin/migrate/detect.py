"""Which homes of other agents there are."""

from collections.abc import Mapping
from pathlib import Path

from hermes.admin.migrate.agent_home import AgentHome
from hermes.admin.migrate.claw_home import NAMES, ClawHome
from hermes.admin.migrate.foreign_home import OldHome
from hermes.config.home import locate_home
from hermes.core.errors import NotFoundError
from hermes.i18n.messages import phrase


def found_homes(environ: Mapping[str, str]) -> list[OldHome]:
    """Those at their usual places: our own folder, `~/.hermes`, `~/.openclaw` and `~/.clawdbot`."""
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
    found: dict[Path, OldHome] = {}
    for place in places:
        one = _at(place, home.root, person)
        if one is not None:
            found.setdefault(place.resolve(), one)
    return list(found.values())


def home_at(environ: Mapping[str, str], path: Path) -> OldHome:
    """The home in a folder. Raises NotFoundError when it is none that is known."""
    found = _at(path.expanduser().absolute(), locate_home(environ).root, Path(environ.get("HOME") or "/"))
    if found is None:
        raise NotFoundError(
            phrase("{path} is no home of hermes-agent or OpenClaw.", path=path),
            phrase("One has a state.db, the other an openclaw.json."),
        )
    return found


def _at(place: Path, own: Path, person: Path) -> OldHome | None:
    try:
        if (place / "state.db").is_file():
            return AgentHome(place, same=place.resolve() == own.resolve())
        if any((place / name).is_file() for name in NAMES) and place.resolve() != own.resolve():
            return ClawHome(place, person)
    except OSError:
        return None
    return None
