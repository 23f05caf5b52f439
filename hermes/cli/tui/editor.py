"""Edit a long text in the person's own editor."""

import shlex
import subprocess
import tempfile
from collections.abc import Mapping

from hermes.core.errors import UsageError
from hermes.i18n.messages import N_


def edit_in_editor(text: str, environ: Mapping[str, str]) -> str | None:
    """Return the text as edited in `$VISUAL` or `$EDITOR`; None when nothing is left of it.

    Blocks until the editor is closed. Raises UsageError when it cannot be started.
    """
    command = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi")
    with tempfile.NamedTemporaryFile("w", suffix=".md", prefix="hermes-", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        try:
            code = subprocess.call([*command, file.name], env=dict(environ))
        except OSError as error:
            raise UsageError(
                N_("The editor {program} cannot be started: {why}.", program=command[0], why=error.strerror),
                N_("Set EDITOR to the one you want."),
            ) from None
        if code != 0:
            raise UsageError(N_("The editor ended with code {code}; nothing was taken over.", code=code))
        with open(file.name, encoding="utf-8", errors="replace") as after:
            written = after.read().rstrip("\n")
    return written if written.strip() else None
