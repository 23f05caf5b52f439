"""Let a person choose the session to go on with, where `--resume` names none."""

import asyncio
from collections.abc import Mapping

from hermes.admin.sessions import open_session_admin
from hermes.cli.plain.menu import choose_option
from hermes.core.encoding import Plain
from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.formats import format_age
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.util.text import strip_control_characters, to_one_line

_MAX_LISTED = 15
_MAX_TITLE = 60


def choose_session(environ: Mapping[str, str], *, can_ask: bool) -> str:
    """Return the id of the session that the person chooses from the newest ones. Raises UsageError where nobody can be
    asked, NotFoundError where there is none, and what a question at the terminal raises.
    """
    if not can_ask:
        raise UsageError(
            N_("No session is named."), N_("`hermes sessions list` shows them; --continue goes on with the newest one.")
        )
    rows = asyncio.run(_list_newest(environ))
    if not rows:
        raise NotFoundError(N_("There is no session to go on with yet."), N_("Start one: hermes -z TEXT"))
    return str(rows[choose_option(tr("Which session?"), [_format_choice(row) for row in rows])]["id"])


async def _list_newest(environ: Mapping[str, str]) -> list[Plain]:
    async with open_session_admin(environ) as admin:
        return await admin.list_newest(_MAX_LISTED)


def _format_choice(row: Plain) -> str:
    title = to_one_line(strip_control_characters(str(row.get("title") or row["id"])), _MAX_TITLE)
    count = tr_plural("{n} message", "{n} messages", int(str(row["message_count"])))
    return f"{title}  ({count}, {format_age(float(str(row['updated_at'])))})"
