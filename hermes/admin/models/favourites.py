"""The models that a person has marked as favourites, kept in a file of the home: the newest last."""

import msgspec

from hermes.config.home import HermesHome
from hermes.core.encoding import to_json
from hermes.util.atomic_write import write_atomic

_MAX_BYTES = 100_000


class FavouriteModels:
    """Reads and changes the favourites. A file that cannot be read counts as empty."""

    def __init__(self, home: HermesHome) -> None:
        self._home = home

    def list_all(self) -> list[tuple[str, str]]:
        """Return the provider and name of each favourite."""
        try:
            raw = (self._home.favourites_file).read_bytes()
            return msgspec.json.decode(raw[:_MAX_BYTES], type=list[tuple[str, str]])
        except (OSError, msgspec.MsgspecError):
            return []

    def toggle_model(self, provider: str, model: str) -> bool:
        """Mark a model, or take its mark away; return whether it is marked now."""
        found = self.list_all()
        is_marked = (provider, model) not in found
        kept = [one for one in found if one != (provider, model)]
        kept += [(provider, model)] if is_marked else []
        self._home.ensure_exists()
        write_atomic(self._home.favourites_file, to_json(kept), mode=0o600)
        return is_marked

    def find_next(self, provider: str, model: str) -> tuple[str, str] | None:
        """Return the favourite behind this model, or the first; None without another one."""
        found = self.list_all()
        at = found.index((provider, model)) + 1 if (provider, model) in found else 0
        behind = found[at:] + found[:at]
        return next((one for one in behind if one != (provider, model)), None)
