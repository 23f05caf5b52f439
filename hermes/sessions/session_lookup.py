"""Looking up stored sessions by what a person types, and their rows as plain values."""

from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.store.records import SessionRow
from hermes.store.store import Store


async def find_session(store: Store, name: str, *, person: str | None = None) -> SessionRow:
    """Find the one session whose id begins with `name` or whose whole title it is; with `person` only among those of
    that person.

    Raises NotFoundError or UsageError.
    """
    found = await store.sessions.find(name, person=person)
    exact = [row for row in found if row.id == name]
    if len(found) > 1 and not exact:
        ids = ", ".join(row.id for row in found[:5])
        raise UsageError(
            N_("{name} could be {found} sessions: {ids}.", name=repr(name), found=len(found), ids=ids),
            "Type more of the id.",
        )
    if not found:
        hint = N_("/sessions shows yours.") if person else N_("`hermes sessions list` shows them.")
        raise NotFoundError(N_("There is no session {name}.", name=repr(name[:80])), hint)
    return (exact or found)[0]


def row_to_dict(row: object) -> Plain:
    """Return a stored row as a dict with its column names."""
    plain: Plain = to_plain(row)
    return plain
