"""The formats of sound: told by a file's first bytes, and made of each other by ffmpeg."""

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hermes.i18n.messages import N_
from hermes.speech.errors import SpeechError
from hermes.speech.programs import Confinement, SoundProgram, SoundPrograms

FFMPEG = "ffmpeg"
ADVICE = N_("Install ffmpeg, on Debian: apt install ffmpeg")
_SNIFFED = 64
_SCRATCH = ".sound-"
_LEFTOVER_SECONDS = 3_600.0
"""Seconds after which a temporary sound belongs to no running process."""
_LONGEST_SECONDS = 3 * 3_600
_CONVERSION_SECONDS = 300.0
_MOST_BYTES = 350_000_000
_READ_FORMATS = "aac,ac3,aiff,amr,amrnb,amrwb,asf,au,avi,caf,flac,flv,matroska,mov,mp3,mpegts,ogg,w64,wav"
"""The formats of recordings, by the names of their readers. Playlists, which name other files, are none of them."""
_SPEECH = ("-ac", "1", "-ar", "16000")
_TARGETS = {
    # What is heard by a machine: one channel, 16 kHz, which is what models work with.
    "ogg": ("-c:a", "libopus", "-b:a", "24k", "-compression_level", "3", "-application", "voip", *_SPEECH, "-f", "ogg"),
    "wav": ("-c:a", "pcm_s16le", *_SPEECH, "-f", "wav"),
    "mp3": ("-c:a", "libmp3lame", "-b:a", "48k", *_SPEECH, "-f", "mp3"),
    # What is heard by people: Opus at its full rate, as platforms record their own voice messages.
    "voice": ("-c:a", "libopus", "-b:a", "32k", "-application", "voip", "-ac", "1", "-ar", "48000", "-f", "ogg"),
}


def identify_sound(head: bytes) -> str:
    """Return the usual end of a file that begins so (`ogg`, `wav`, `mp3` ...); empty where it is no known sound."""
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "wav"
    if head[4:8] == b"ftyp":
        return "m4a"
    starts = ((b"OggS", "ogg"), (b"fLaC", "flac"), (b"\x1aE\xdf\xa3", "webm"), (b"#!AMR", "amr"), (b"ID3", "mp3"))
    for start, name in starts:
        if head.startswith(start):
            return name
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:
        return "aac" if head[1] & 0x06 == 0 else "mp3"
    return ""


@contextlib.contextmanager
def open_sound(path: str | Path) -> Iterator[tuple[int, int, str]]:
    """Open a file without following a link; yield its handle, its size and its format. Raises SpeechError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SpeechError(N_("The recording cannot be read: {why}.", why=error.strerror or str(error))) from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or not found.st_size:
            raise SpeechError(N_("The recording is empty, or no file."))
        yield handle, found.st_size, identify_sound(os.pread(handle, _SNIFFED, 0))
    finally:
        os.close(handle)


async def convert_sound(
    programs: SoundPrograms, source: tuple[int, str], target: str, output: IO[bytes], *, own: bool = False
) -> None:
    """Write a sound, given by its handle and path, in another format (`ogg`, `wav`, `mp3`, or `voice`) to a file.

    What is not our `own` is read in a box or not at all. Memory holds a piece at a time. Raises SpeechError.
    """
    ffmpeg = programs.find_program(FFMPEG)
    if not ffmpeg:
        raise SpeechError(N_("The recording is in a format that has to be converted, and there is no ffmpeg."), ADVICE)
    handle, path = source
    words = (
        *(ffmpeg, "-nostdin", "-hide_banner", "-loglevel", "error"),
        *("-protocol_whitelist", "file,pipe", "-format_whitelist", _READ_FORMATS),
        # By its own handle, through /proc, so that formats whose index stands at their end can be read, too.
        *("-t", str(_LONGEST_SECONDS), "-i", "file:/proc/self/fd/0", "-map", "0:a:0", "-vn", "-sn", "-dn"),
        *("-map_metadata", "-1", "-threads", "1", *_TARGETS[target], "pipe:1"),
    )
    program = SoundProgram(
        words=words,
        source=handle,
        readable=path,
        confinement=Confinement.PREFERRED if own else Confinement.REQUIRED,
        seconds=_CONVERSION_SECONDS,
        most=_MOST_BYTES,
    )
    await programs.run(program, output.write)
    if not output.tell():
        raise SpeechError(N_("Nothing in the recording can be heard."))


@contextlib.contextmanager
def temporary_sound(folder: Path, end: str = "") -> Iterator[IO[bytes]]:
    """Yield a private file that is gone at the end of the block; programs may go by the `end` of its name."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=folder, prefix=_SCRATCH, suffix=end)
    try:
        with open(name, "w+b", opener=lambda _path, _flags: handle) as file:
            yield file
    finally:
        with contextlib.suppress(FileNotFoundError):  # a program may have moved it
            os.unlink(name)


def delete_leftovers(folder: Path) -> None:
    """Delete what killed processes have left in the folder of temporary sounds."""
    with contextlib.suppress(OSError):
        for one in folder.iterdir():
            if one.stat().st_mtime < time.time() - _LEFTOVER_SECONDS:
                one.unlink(missing_ok=True)
