"""Hearing and speaking by a server, by the person's programs, and by espeak-ng; formats by ffmpeg in its box."""

import asyncio
import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from hermes.speech.errors import NoEngineError, SpeechError
from hermes.speech.programs import Confinement, SoundProgram, SoundPrograms
from tests.requirements import find_program
from tests.speech.speech_rig import open_service
from tests.vendors.opus_file import make_opus
from tests.vendors.speech import FakeSpeech

pytestmark = pytest.mark.slow


def write_note(folder: Path, name: str = "note.ogg", content: bytes = b"") -> Path:
    file = folder / name
    file.write_bytes(content or make_opus(2.0))
    return file


def probe(file: str) -> str:
    """Return a file's codec, rate, channels and whole seconds, as ffprobe says."""
    program = find_program("ffprobe") or ""
    wanted = "stream=codec_name,sample_rate,channels:format=format_name"
    command = [program, "-v", "error", "-show_entries", wanted, "-of", "csv=p=0", file]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.replace("\n", " ").strip()


async def test_a_server_hears(tmp_path: Path) -> None:
    note = write_note(tmp_path)
    async with FakeSpeech(heard="  Guten Morgen, Anna. ", language="de") as server:
        async with open_service(tmp_path, stt=server.settings(language="de", model="big")) as service:
            heard = await service.transcribe_file(note)
        assert (heard.text, heard.language, heard.engine) == ("Guten Morgen, Anna.", "de", "your own server")
        assert abs(heard.seconds - 2.0) < 0.05
        (sent,) = server.recordings
        assert sent.content == note.read_bytes()
        assert sent.name == "voice.ogg"
        assert sent.fields == {"model": "big", "language": "de", "response_format": "json"}


async def test_a_busy_server_is_asked_once_more_and_a_refusal_is_named(tmp_path: Path) -> None:
    note = write_note(tmp_path)
    async with FakeSpeech(heard="yes") as server, open_service(tmp_path, stt=server.settings()) as service:
        server.failing = [(503, "overloaded")]
        assert (await service.transcribe_file(note)).text == "yes"
        server.failing = [(429, "slow down"), (429, "slow down")]
        with pytest.raises(SpeechError, match="slow down"):
            await service.transcribe_file(note)
        server.failing = [(404, "no such model")]
        with pytest.raises(SpeechError, match=r"no such model\W+Is the address right"):
            await service.transcribe_file(note)
    wrong = server.settings(api_key="wrong-key-of-a-person")
    async with server, open_service(tmp_path, stt={**wrong, "base_url": server.base}) as service:
        with pytest.raises(SpeechError, match=r"Incorrect API key provided: \[key\]"):
            await service.transcribe_file(note)
    async with open_service(tmp_path, stt=server.settings()) as service:
        with pytest.raises(SpeechError):  # nothing listens there any more
            await service.transcribe_file(note)


async def test_who_is_chosen(tmp_path: Path) -> None:
    async with open_service(tmp_path, path="/nonexistent") as service:
        with pytest.raises(NoEngineError, match=r"Nothing here can hear.*hermes auth add groq"):
            service.find_transcriber()
        with pytest.raises(NoEngineError, match=r"Nothing here can speak.*apt install espeak-ng"):
            service.find_speaker()
    async with open_service(tmp_path, keys={"mistral": "k", "groq": "k"}, path="") as service:
        assert service.find_transcriber().name == "groq"
        assert service.find_speaker().name == "mistral"
    for section, settings, words in (
        ("stt", {"provider": "openai"}, "OpenAI has no key"),
        ("stt", {"provider": "whisper"}, "not known"),
        ("stt", {"provider": "local"}, r"stt\.base_url"),
        ("stt", {"enabled": False}, "switched off"),
        ("stt", {"command": "whisper 'x"}, "cannot be read"),
        ("tts", {"provider": "command"}, r"Set tts\.command"),
        ("tts", {"provider": "nobody"}, "not known"),
    ):
        async with open_service(tmp_path, **{section: settings}) as service:  # type: ignore[arg-type]
            with pytest.raises(NoEngineError, match=words):
                service.find_transcriber() if section == "stt" else service.find_speaker()


async def test_the_persons_own_programs(tmp_path: Path) -> None:
    note = write_note(tmp_path, "-n ote.ogg")
    hear = tmp_path / "hear"
    hear.write_text('#!/bin/sh\necho "$# $2 $(wc -c < "$1") [$SOME_API_KEY]"\n')
    speak = tmp_path / "speak"
    speak.write_text(f'#!/bin/sh\ncat > "{tmp_path}/said"\ncp "{note}" "$1"\n')
    for one in (hear, speak):
        one.chmod(0o700)
    stt = {"command": [str(hear), "{file}", "{language}"], "language": "a b; c"}
    async with open_service(tmp_path, stt=stt, tts={"command": f"'{speak}' {{file}}"}) as service:
        heard = await service.transcribe_file(note)
        assert heard.text == f"2 a b; c {len(note.read_bytes())} []"
        spoken = await service.speak_text("Hello, -n world.", tmp_path / "out")
        assert (tmp_path / "said").read_text() == "Hello, -n world."
        assert spoken.is_voice
        assert spoken.path == str(tmp_path / "out.ogg")
        assert Path(spoken.path).stat().st_mode & 0o777 == 0o600
    async with open_service(tmp_path, stt={"command": ["false"]}, tts={"command": "no-such-program"}) as service:
        with pytest.raises(SpeechError, match="false failed"):
            await service.transcribe_file(note)
        assert service.find_transcriber().title == "false"
        with pytest.raises(NoEngineError, match="no-such-program is not found"):
            service.find_speaker()
        with pytest.raises(SpeechError, match="no-such-program is not found"):
            await service.speak_text("Hello.", tmp_path / "out")
    async with open_service(tmp_path, stt={"command": "sh -c 'sleep 77' {file}", "timeout": 0.2}) as service:
        began = time.monotonic()
        with pytest.raises(SpeechError, match=r"took longer than 0\.2 s"):
            await service.transcribe_file(note)
        assert time.monotonic() - began < 60


async def test_a_server_speaks(tmp_path: Path) -> None:
    async with FakeSpeech(sound=make_opus(1.5)) as server:
        async with open_service(tmp_path, tts=server.settings(voice="nova", speed=1.25)) as service:
            spoken = await service.speak_text("Hello.", tmp_path / "media" / "t1")
        assert spoken.is_voice
        assert abs(spoken.seconds - 1.5) < 0.05
        assert Path(spoken.path).read_bytes() == server.sound
        assert server.texts == [
            {"model": "tts-1", "input": "Hello.", "voice": "nova", "response_format": "opus", "speed": 1.25}
        ]
        server.sound = b"<html>no sound</html>"
        async with open_service(tmp_path, tts=server.settings()) as service:
            with pytest.raises(SpeechError, match="no sound of a known format"):
                await service.speak_text("Hello.", tmp_path / "t2")
            with pytest.raises(SpeechError, match="nothing to say"):
                await service.speak_text("…", tmp_path / "t2")


@pytest.mark.needs("espeak-ng", "ffmpeg")
async def test_espeak_speaks_and_ffmpeg_makes_voice_messages(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        spoken = await service.speak_text("This is a test, -v en of the voice.", tmp_path / "a")
        assert spoken.is_voice
        assert spoken.engine == "espeak-ng"
        assert spoken.seconds > 1
        assert probe(spoken.path) == "opus,48000,1 ogg"
        wav = await service.speak_text("Привет.", tmp_path / "b.wav")
        assert probe(wav.path) == "pcm_s16le,22050,1 wav"  # as it came
        assert probe((await service.speak_text("你好。", tmp_path / "c.mp3")).path) == "mp3,16000,1 mp3"


@pytest.mark.needs("ffmpeg", "bubblewrap")
async def test_recordings_are_made_fit_for_a_server(tmp_path: Path) -> None:
    tone = [find_program("ffmpeg") or "", "-v", "error", "-f", "lavfi", "-i", "sine=frequency=300:duration=2"]
    names = ("a.amr", "b.m4a", "c.aac", "-d.wav")
    write_note(tmp_path, "a.amr", b"#!AMR\n" + (b"\x3c" + bytes(31)) * 50)
    async with FakeSpeech(heard="hm") as server:
        async with open_service(tmp_path, stt=server.settings()) as service:
            for name in names:
                if not (tmp_path / name).exists():
                    await asyncio.to_thread(subprocess.run, [*tone, str(tmp_path / name)], check=True)
                await service.transcribe_file(tmp_path / name)
        assert [one.name for one in server.recordings] == ["voice.ogg", "voice.m4a", "voice.ogg", "voice.wav"]
        async with open_service(tmp_path, stt=server.settings(format="wav")) as service:
            await service.transcribe_file(tmp_path / "b.m4a")
        assert server.recordings[-1].name == "voice.wav"
        assert server.recordings[-1].content[:4] == b"RIFF"
        for wrong in (b"#!AMR\nnothing of the kind", b"not a sound at all"):
            async with open_service(tmp_path, stt=server.settings()) as service:
                with pytest.raises(SpeechError, match="ffmpeg failed"):
                    await service.transcribe_file(write_note(tmp_path, "wrong", wrong))
    async with open_service(tmp_path, stt=server.settings(), path="/nonexistent") as service:
        with pytest.raises(SpeechError, match="there is no ffmpeg"):
            await service.transcribe_file(tmp_path / "a.amr")


async def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    async with FakeSpeech() as server, open_service(tmp_path, stt=server.settings()) as service:
        for name in ("pipe", "empty", "missing"):
            with pytest.raises(SpeechError):
                await service.transcribe_file(tmp_path / name)


@pytest.mark.needs("bubblewrap")
async def test_a_program_in_its_box_sees_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a secret")
    note = write_note(tmp_path)
    async with open_service(tmp_path) as service:
        programs: SoundPrograms = service._programs
        if await programs.explain_missing_box():
            pytest.skip("no sandbox here")
        printed = bytearray()
        # Nothing can be started in the box: only what the shell does by itself works.
        script = f"""
            while read line; do echo "read: $line"; done < {tmp_path}/key
            echo x > /tmp/x && echo written
            echo "[$SOME_API_KEY]"
            /bin/ls /
        """
        handle = os.open(note, os.O_RDONLY)
        try:
            program = SoundProgram(words=("/bin/sh", "-c", script), source=handle, readable=str(note))
            assert program.confinement is Confinement.REQUIRED
            with pytest.raises(SpeechError, match="Cannot fork"):
                await programs.run(program, printed.extend)
            many = ("/bin/sh", "-c", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaa; done")
            with pytest.raises(SpeechError, match="printed more"):
                await programs.run(SoundProgram(words=many, most=1_000_000), lambda _: None)
        finally:
            os.close(handle)
        assert printed == b"[]\n"


@pytest.mark.needs("ffmpeg", "bubblewrap")
async def test_hostile_files_are_refused_by_name(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    tone = [find_program("ffmpeg") or "", "-v", "error", "-f", "lavfi", "-i", "sine=frequency=300:duration=1"]
    for name in ("a.m4a", "b.aac", "c.aiff", "d.mp3"):
        await asyncio.to_thread(subprocess.run, [*tone, str(made / name)], check=True)
    whole = [(made / name).read_bytes() for name in sorted(one.name for one in made.iterdir())]
    luck = random.Random(11)
    playlists = [
        b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile '/etc/passwd'\n",
        b"[playlist]\nFile1=http://127.0.0.1:9/\n",
        b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\0\0\0\x08ftyp" + b"\xff" * 400,
    ]
    files = [*playlists, *whole]
    for _ in range(6):
        broken = bytearray(luck.choice(whole))
        for _ in range(luck.randrange(1, 60)):
            broken[luck.randrange(len(broken))] = luck.randrange(256)
        files.append(bytes(broken[: luck.randrange(1, len(broken))]))
    outcomes = []
    async with FakeSpeech(heard="hm") as server, open_service(tmp_path, stt=server.settings(format="ogg")) as service:
        for number, content in enumerate(files):
            try:
                await service.transcribe_file(write_note(tmp_path, f"f{number}", content))
                outcomes.append("")
            except SpeechError as error:
                outcomes.append(str(error))
        assert all("ffmpeg failed" in one for one in outcomes[: len(playlists)]), outcomes
        assert outcomes[len(playlists) : len(playlists) + len(whole)] == [""] * len(whole)
        assert all(one.content[:4] == b"OggS" for one in server.recordings)


async def test_a_program_may_take_its_file_away_and_leftovers_go(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / ".sound-old").write_bytes(b"x")
    os.utime(scratch / ".sound-old", (1, 1))
    async with open_service(tmp_path, tts={"command": "rm {file}"}) as service:
        with pytest.raises(SpeechError, match="No such file"):
            await service.speak_text("Hello.", tmp_path / "out")
        assert not list(scratch.iterdir())
