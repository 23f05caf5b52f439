"""A home of OpenClaw (earlier Clawdbot): `openclaw.json`, a workspace with AGENTS.md and MEMORY.md, skills, sessions.

The layout is that of its documentation (Agent workspace; Where things live on disk). A session is a file of JSON lines:
`session`, then `message` entries whose message has a role, content and a time.
"""

import datetime
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from hermes.admin.migrate.foreign_home import (
    Holdings,
    Left,
    OldHome,
    decoded,
    is_link,
    skill_folders,
    sound_id,
    typed_messages,
    without_links,
    words_below,
)
from hermes.config.environment import parse_dotenv
from hermes.i18n.messages import say, say_many
from hermes.providers.records import ALIASES, KEYS, provider_names
from hermes.sessions.formats.openai_format import Plain
from hermes.store.imported_sessions import OldMessage, OldSession
from hermes.store.rows import NewSession
from hermes.util.text import one_line

SOURCE = "openclaw"
NAMES = ("openclaw.json", "clawdbot.json")
_LINE_LIMIT = 8 << 20
_MOST_ENTRIES = 400
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")


class ClawHome(OldHome):
    """One of them."""

    title = "OpenClaw"
    source = SOURCE
    same = False

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self._home = home
        """The person's home folder."""

    def holdings(self) -> Holdings:
        """What is in it."""
        left: list[Left] = []
        config = self._config(left)
        workspace = self._workspace(config, left)
        files = list(self._session_files())
        messages = sum(map(_messages_in, files))
        notes = list((workspace / "memory").glob("*.md"))
        if notes:
            what = say_many("{n} daily note", "{n} daily notes", len(notes))
            left.append(Left(what, say("old sessions can be searched instead")))
        if (workspace / "AGENTS.md").exists():
            left.append(Left("AGENTS.md", say("copy it into a project's folder, where Hermes reads it")))
        others = [name for name in ("credentials", "cron", "identity", "devices") if (self.root / name).exists()]
        if others:
            left.append(Left(", ".join(others), say("it belongs to that program")))
        memory = words_below(workspace, "MEMORY.md", left) or words_below(workspace, "memory.md", left)
        skills = without_links(workspace, skill_folders(workspace / "skills"), left)
        skills += without_links(self.root, skill_folders(self.root / "skills"), left)
        return Holdings(
            title=self.title,
            root=self.root,
            settings=_settings(config, left),
            env=self._env(config, left),
            identity=words_below(workspace, "SOUL.md", left),
            memory=_notes(memory),
            user=_notes(words_below(workspace, "USER.md", left)),
            skills=tuple(skills),
            sessions=len(files),
            messages=messages,
            bytes=sum(file.stat().st_size for file in files),
            left=tuple(left),
        )

    def sessions(self) -> Iterator[OldSession]:
        """All sessions in which something was said, oldest first."""
        for file in sorted(self._session_files(), key=_began):
            old = _session(file)
            if old is not None:
                yield old

    def _config(self, left: list[Left]) -> dict[str, object]:
        file = next((self.root / name for name in NAMES if (self.root / name).exists()), self.root / NAMES[0])
        text = words_below(self.root, file.name, left)
        if not text:
            return {}
        try:
            found = json.loads(_strict(text))
        except (ValueError, RecursionError):
            left.append(Left(file.name, say("it cannot be read as JSON")))
            return {}
        return found if isinstance(found, dict) else {}

    def _workspace(self, config: Mapping[str, object], left: list[Left]) -> Path:
        """The folder of its files: below its home or the person's, and none elsewhere."""
        named = self._named_workspace(config)
        real = Path(os.path.realpath(named))
        if any(real.is_relative_to(os.path.realpath(one)) for one in (self.root, self._home)):
            return real
        left.append(Left(str(named), say("it lies neither in that home nor in yours")))
        return self.root / "workspace-elsewhere"

    def _named_workspace(self, config: Mapping[str, object]) -> Path:
        named = _get(config, "agents", "defaults", "workspace") or _get(config, "agent", "workspace")
        if isinstance(named, str) and named:
            path = str(self._home / named[2:]) if named.startswith("~/") else named
            if os.path.isabs(path):
                return Path(path)
        return self.root / "workspace"

    def _env(self, config: Mapping[str, object], left: list[Left]) -> dict[str, str]:
        known = {variable for names in KEYS.values() for variable in names}
        found = parse_dotenv(words_below(self.root, ".env", left))
        for section in (_get(config, "env"), _get(config, "env", "vars")):
            if isinstance(section, dict):
                found |= {name: value for name, value in section.items() if isinstance(value, str)}
        return {name: value for name, value in found.items() if name in known and value and "${" not in value}

    def _session_files(self) -> Iterator[Path]:
        agents = self.root / "agents"
        for file in sorted(agents.glob("*/sessions/*.jsonl")):
            if file.is_file() and not is_link(self.root, file) and ".deleted" not in file.name:
                yield file


def _settings(config: Mapping[str, object], left: list[Left]) -> dict[tuple[str, ...], object]:
    """The model, where it is one of a provider that is known here."""
    named = _get(config, "agents", "defaults", "model", "primary") or _get(config, "agents", "defaults", "model")
    named = named or _get(config, "agent", "model", "primary") or _get(config, "agent", "model")
    if not isinstance(named, str) or "/" not in named:
        return {}
    prefix, _, rest = named.partition("/")
    provider = ALIASES.get(prefix.lower(), prefix.lower())
    if provider not in provider_names():
        left.append(Left(say("the model {name}", name=one_line(named, 80)), say("its provider is not known here")))
        return {}
    return {("model", "default"): rest, ("model", "provider"): provider}


def _notes(text: str) -> tuple[str, ...]:
    """The single notes of a Markdown file: bullets and paragraphs, headings and comments left out."""
    text = re.sub(r"<!--.*?-->|\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    notes: list[str] = []
    open_note = False
    for line in text.splitlines():
        bare = _BULLET.sub("", line).strip()
        if not bare or bare.startswith(("#", "```", "___", "---", "***")):
            open_note = False
        elif _BULLET.match(line) or not open_note:
            notes.append(bare)
            open_note = True
        else:
            notes[-1] += " " + bare
    return tuple(dict.fromkeys(notes[:_MOST_ENTRIES]))


def _entries(file: Path) -> Iterator[dict[str, object]]:
    """The entries of a session's file; lines that are none are left out."""
    try:
        with open(file, "rb") as source:
            while line := source.readline(_LINE_LIMIT):
                entry = decoded(line)
                if isinstance(entry, dict):
                    yield entry
    except OSError:
        return


def _messages_in(file: Path) -> int:
    """How many messages a session's file holds, about: its lines are not read as JSON for that."""
    try:
        with open(file, "rb") as source:
            return sum(b'"type":"message"' in line[:200].replace(b" ", b"") for line in source)
    except OSError:
        return 0


def _began(file: Path) -> float:
    return _moment(next(_entries(file), {}).get("timestamp"))


def _session(file: Path) -> OldSession | None:
    entries = list(_entries(file))
    head = next((entry for entry in entries if entry.get("type") == "session"), {})
    began = _moment(head.get("timestamp"))
    said = list(_said(entries, began))
    messages = typed_messages([(at, plain) for at, message in said for plain in _plain(message)])
    name = sound_id(str(head.get("id") or file.stem))
    if not name or not messages:
        return None
    return OldSession(
        session=NewSession(
            id=name,
            source=SOURCE,
            title=_title(messages),
            model=_model(said),
            cwd=str(head.get("cwd") or ""),
        ),
        began_at=began or messages[0].at,
        ended_at=messages[-1].at,
        messages=messages,
    )


def _model(said: Sequence[tuple[float, Mapping[str, object]]]) -> str:
    """The model that answered last."""
    return next((str(message["model"]) for _, message in reversed(said) if message.get("model")), "")


def _title(messages: Iterable[OldMessage]) -> str:
    """The first words that were said."""
    return one_line(next((one.message.text for one in messages if one.message.text.strip()), ""), 60)


def _said(entries: Iterable[Mapping[str, object]], began: float) -> Iterator[tuple[float, dict[str, object]]]:
    """The messages among the entries of a session, with their times."""
    for entry in entries:
        message = entry.get("message") if entry.get("type") == "message" else None
        if isinstance(message, dict):
            yield _moment(entry.get("timestamp")) or _moment(message.get("timestamp")) or began, message


def _plain(message: Mapping[str, object]) -> Iterator[Plain]:
    """A message in the common form."""
    role, content = message.get("role"), message.get("content")
    listed = content if isinstance(content, list) else [{"type": "text", "text": content}]
    blocks = [block for block in listed if isinstance(block, dict)]
    text = "\n".join(str(block["text"]) for block in blocks if isinstance(block.get("text"), str))
    if role in ("toolResult", "tool"):
        call = message.get("toolCallId") or message.get("tool_call_id")
        yield {"role": "tool", "tool_call_id": call, "content": text}
    elif role == "assistant":
        yield {"role": "assistant", "content": text, **_calls(blocks)}
    elif role == "user" and text:
        yield {"role": "user", "content": text}


def _calls(blocks: Iterable[Mapping[str, object]]) -> Plain:
    calls = [
        {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": _arguments(block)}}
        for block in blocks
        if block.get("type") in ("toolCall", "tool_use", "toolUse")
    ]
    return {"tool_calls": calls} if calls else {}


def _arguments(block: Mapping[str, object]) -> object:
    found = block.get("arguments", block.get("input"))
    return found if isinstance(found, str | dict) else {}


def _moment(value: object) -> float:
    """Seconds since the Unix epoch, from ISO 8601, or from milliseconds; 0 for what is neither."""
    if isinstance(value, int | float):
        return value / 1000 if 1e11 < value < 1e14 else float(value) if 0 < value < 1e11 else 0.0
    if isinstance(value, str):
        try:
            return datetime.datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return 0.0
    return 0.0


def _get(value: object, *path: str) -> object:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


_STRING = r'"(?:\\.|[^"\\])*"'
_LOOSE = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/|,(?=\s*[}}\]])|([{{,]\s*)([A-Za-z_$][\w$]*)(?=\s*:)", re.DOTALL)


def _strict(text: str) -> str:
    """JSON5 as JSON, as far as people write it by hand: comments, commas at the end, names without quotes."""

    def mended(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        return f'{match[2]}"{match[3]}"' if match[3] else ""

    return _LOOSE.sub(mended, _LOOSE.sub(mended, text))
