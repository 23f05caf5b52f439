"""Read and write texts and pictures through programs of the person's desktop: the clipboard and the editor.

Where the desktop has no program for the clipboard, the terminal is asked to copy (OSC 52).
"""

import base64
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping

from hermes.core.errors import UsageError
from hermes.core.messages import PERSON, ImagePart
from hermes.i18n.messages import N_, tr

_PROGRAM_SECONDS = 3.0
_MAX_TERMINAL_BYTES = 74_994
"""Bytes that terminals take by OSC 52 (xterm's limit)."""


def copy_text(text: str, environ: Mapping[str, str], write: Callable[[str], None] | None) -> str:
    """Put a text into the clipboard. Return how that was done, or why it could not be. `write` sends sequences to a
    terminal.
    """
    for variable, command in (
        ("WAYLAND_DISPLAY", ("wl-copy",)),
        ("DISPLAY", ("xclip", "-selection", "clipboard")),
        ("DISPLAY", ("xsel", "-ib")),
        ("", ("pbcopy",)),
    ):
        if (variable and not environ.get(variable)) or (program := shutil.which(command[0])) is None:
            continue
        if _pipe_text((program, *command[1:]), text, environ):
            return tr("Copied with {program}.", program=command[0])
    if write is None:
        return tr("No program of the desktop was found that could do that.")
    encoded = base64.b64encode(text.encode()).decode()
    if len(encoded) > _MAX_TERMINAL_BYTES:
        return tr("This is too long for the terminal's clipboard; /export writes it into a file.")
    sequence = f"\x1b]52;c;{encoded}\x07"
    # tmux takes the sequence itself where `set-clipboard` is on, and hands it through where `allow-passthrough` is.
    write(sequence + (f"\x1bPtmux;\x1b{sequence}\x1b\\" if environ.get("TMUX") else ""))
    return tr("The terminal was asked to copy it; some terminals need that to be switched on.")


def read_clipboard_picture(environ: Mapping[str, str]) -> ImagePart | None:
    """Return the picture in the desktop's clipboard; None when there is none, or no way to it."""
    for variable, command in (
        ("WAYLAND_DISPLAY", ("wl-paste", "--type", "image/png")),
        ("DISPLAY", ("xclip", "-selection", "clipboard", "-t", "image/png", "-o")),
        ("", ("pngpaste", "-")),
    ):
        if (variable and not environ.get(variable)) or (program := shutil.which(command[0])) is None:
            continue
        try:
            done = subprocess.run(
                (program, *command[1:]), capture_output=True, timeout=_PROGRAM_SECONDS, check=False, env=dict(environ)
            )
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0 and done.stdout.startswith(b"\x89PNG"):
            return ImagePart(media_type="image/png", data=base64.b64encode(done.stdout).decode(), provenance=PERSON)
    return None


def _pipe_text(command: tuple[str, ...], text: str, environ: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(
            command,
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PROGRAM_SECONDS,
            check=False,
            env=dict(environ),
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


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
