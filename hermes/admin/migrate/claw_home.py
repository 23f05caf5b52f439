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
    ForeignHome,
    HomeContents,
    SkippedItem,
    check_session_id,
    convert_messages,
    decode_json,
    find_skill_folders,
    is_link,
    read_text_below,
    skip_links,
)
from hermes.config.environment import parse_dotenv
from hermes.core.encoding import Plain
from hermes.i18n.messages import tr, tr_plural
from hermes.providers.records import ALIASES, KEY_VARIABLES, list_provider_names
from hermes.store.imported_sessions import ImportedMessage, ImportedSession
from hermes.store.records import NewSession
from hermes.util.loose_json import to_strict_json
from hermes.util.text import to_one_line

SOURCE = "openclaw"
CONFIG_NAMES = ("openclaw.json", "clawdbot.json")
_LINE_LIMIT = 8 << 20
_MAX_NOTES = 400
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")


class ClawHome(ForeignHome):
    """A home of OpenClaw."""

    title = "OpenClaw"
    source = SOURCE
    same = False

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self._home = home
        """The person's home folder."""

    def read_contents(self) -> HomeContents:
        """Read the contents of the home."""
        skipped: list[SkippedItem] = []
        config = self._read_config(skipped)
        workspace = self._find_workspace(config, skipped)
        files = list(self._list_session_files())
        messages = sum(map(_count_messages, files))
        notes = list((workspace / "memory").glob("*.md"))
        if notes:
            what = tr_plural("{n} daily note", "{n} daily notes", len(notes))
            skipped.append(SkippedItem(what, tr("old sessions can be searched instead")))
        if (workspace / "AGENTS.md").exists():
            skipped.append(SkippedItem("AGENTS.md", tr("copy it into a project's folder, where Hermes reads it")))
        others = [name for name in ("credentials", "cron", "identity", "devices") if (self.root / name).exists()]
        if others:
            skipped.append(SkippedItem(", ".join(others), tr("it belongs to that program")))
        memory = read_text_below(workspace, "MEMORY.md", skipped) or read_text_below(workspace, "memory.md", skipped)
        skills = skip_links(workspace, find_skill_folders(workspace / "skills"), skipped)
        skills += skip_links(self.root, find_skill_folders(self.root / "skills"), skipped)
        return HomeContents(
            title=self.title,
            root=self.root,
            settings=_convert_settings(config, skipped),
            env=self._read_env(config, skipped),
            identity=read_text_below(workspace, "SOUL.md", skipped),
            memory=_split_notes(memory),
            user=_split_notes(read_text_below(workspace, "USER.md", skipped)),
            skills=tuple(skills),
            sessions=len(files),
            messages=messages,
            bytes=sum(file.stat().st_size for file in files),
            skipped=tuple(skipped),
        )

    def iterate_sessions(self) -> Iterator[ImportedSession]:
        """Yield all sessions with messages, oldest first."""
        for file in sorted(self._list_session_files(), key=_session_start):
            old = _convert_session(file)
            if old is not None:
                yield old

    def _read_config(self, skipped: list[SkippedItem]) -> dict[str, object]:
        file = next(
            (self.root / name for name in CONFIG_NAMES if (self.root / name).exists()), self.root / CONFIG_NAMES[0]
        )
        text = read_text_below(self.root, file.name, skipped)
        if not text:
            return {}
        try:
            found = json.loads(to_strict_json(text))
        except (ValueError, RecursionError):
            skipped.append(SkippedItem(file.name, tr("it cannot be read as JSON")))
            return {}
        return found if isinstance(found, dict) else {}

    def _find_workspace(self, config: Mapping[str, object], skipped: list[SkippedItem]) -> Path:
        """Return the folder of its files: below its home or the person's, and none elsewhere."""
        named = self._named_workspace(config)
        real = Path(os.path.realpath(named))
        if any(real.is_relative_to(os.path.realpath(one)) for one in (self.root, self._home)):
            return real
        skipped.append(SkippedItem(str(named), tr("it is neither in that home nor in yours")))
        return self.root / "workspace-elsewhere"

    def _named_workspace(self, config: Mapping[str, object]) -> Path:
        named = _get_path(config, "agents", "defaults", "workspace") or _get_path(config, "agent", "workspace")
        if isinstance(named, str) and named:
            path = str(self._home / named[2:]) if named.startswith("~/") else named
            if os.path.isabs(path):
                return Path(path)
        return self.root / "workspace"

    def _read_env(self, config: Mapping[str, object], skipped: list[SkippedItem]) -> dict[str, str]:
        known = {variable for names in KEY_VARIABLES.values() for variable in names}
        found = parse_dotenv(read_text_below(self.root, ".env", skipped))
        for section in (_get_path(config, "env"), _get_path(config, "env", "vars")):
            if isinstance(section, dict):
                found |= {name: value for name, value in section.items() if isinstance(value, str)}
        return {name: value for name, value in found.items() if name in known and value and "${" not in value}

    def _list_session_files(self) -> Iterator[Path]:
        agents = self.root / "agents"
        for file in sorted(agents.glob("*/sessions/*.jsonl")):
            if file.is_file() and not is_link(self.root, file) and ".deleted" not in file.name:
                yield file


def _convert_settings(config: Mapping[str, object], skipped: list[SkippedItem]) -> dict[tuple[str, ...], object]:
    """Return the settings of the model when its provider is known here."""
    named = _get_path(config, "agents", "defaults", "model", "primary") or _get_path(
        config, "agents", "defaults", "model"
    )
    named = named or _get_path(config, "agent", "model", "primary") or _get_path(config, "agent", "model")
    if not isinstance(named, str) or "/" not in named:
        return {}
    prefix, _, rest = named.partition("/")
    provider = ALIASES.get(prefix.lower(), prefix.lower())
    if provider not in list_provider_names():
        skipped.append(
            SkippedItem(tr("the model {name}", name=to_one_line(named, 80)), tr("its provider is not known here"))
        )
        return {}
    return {("model", "default"): rest, ("model", "provider"): provider}


def _split_notes(text: str) -> tuple[str, ...]:
    """Split a Markdown file into notes: bullets and paragraphs, without headings and comments."""
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
    return tuple(dict.fromkeys(notes[:_MAX_NOTES]))


def _read_entries(file: Path) -> Iterator[dict[str, object]]:
    """Yield the entries of a session's file; invalid lines are left out."""
    try:
        with open(file, "rb") as source:
            while line := source.readline(_LINE_LIMIT):
                entry = decode_json(line)
                if isinstance(entry, dict):
                    yield entry
    except OSError:
        return


def _count_messages(file: Path) -> int:
    """Return about how many messages a session's file holds, without parsing its lines as JSON."""
    try:
        with open(file, "rb") as source:
            return sum(b'"type":"message"' in line[:200].replace(b" ", b"") for line in source)
    except OSError:
        return 0


def _session_start(file: Path) -> float:
    return _parse_time(next(_read_entries(file), {}).get("timestamp"))


def _convert_session(file: Path) -> ImportedSession | None:
    entries = list(_read_entries(file))
    head = next((entry for entry in entries if entry.get("type") == "session"), {})
    began = _parse_time(head.get("timestamp"))
    said = list(_list_messages(entries, began))
    messages = convert_messages([(at, plain) for at, message in said for plain in _to_chat_messages(message)])
    name = check_session_id(str(head.get("id") or file.stem))
    if not name or not messages:
        return None
    return ImportedSession(
        session=NewSession(
            id=name,
            source=SOURCE,
            title=_derive_title(messages),
            model=_last_model(said),
            cwd=str(head.get("cwd") or ""),
        ),
        began_at=began or messages[0].at,
        ended_at=messages[-1].at,
        messages=messages,
    )


def _last_model(said: Sequence[tuple[float, Mapping[str, object]]]) -> str:
    """Return the model that answered last."""
    return next((str(message["model"]) for _, message in reversed(said) if message.get("model")), "")


def _derive_title(messages: Iterable[ImportedMessage]) -> str:
    """Return the beginning of the first text as the title."""
    return to_one_line(next((one.message.text for one in messages if one.message.text.strip()), ""), 60)


def _list_messages(entries: Iterable[Mapping[str, object]], began: float) -> Iterator[tuple[float, dict[str, object]]]:
    """Yield the messages among the entries of a session, with their times."""
    for entry in entries:
        message = entry.get("message") if entry.get("type") == "message" else None
        if isinstance(message, dict):
            yield _parse_time(entry.get("timestamp")) or _parse_time(message.get("timestamp")) or began, message


def _to_chat_messages(message: Mapping[str, object]) -> Iterator[Plain]:
    """Yield a message in the OpenAI format."""
    role, content = message.get("role"), message.get("content")
    listed = content if isinstance(content, list) else [{"type": "text", "text": content}]
    blocks = [block for block in listed if isinstance(block, dict)]
    text = "\n".join(str(block["text"]) for block in blocks if isinstance(block.get("text"), str))
    if role in ("toolResult", "tool"):
        call = message.get("toolCallId") or message.get("tool_call_id")
        yield {"role": "tool", "tool_call_id": call, "content": text}
    elif role == "assistant":
        yield {"role": "assistant", "content": text, **_convert_calls(blocks)}
    elif role == "user" and text:
        yield {"role": "user", "content": text}


def _convert_calls(blocks: Iterable[Mapping[str, object]]) -> Plain:
    calls = [
        {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": _call_arguments(block)}}
        for block in blocks
        if block.get("type") in ("toolCall", "tool_use", "toolUse")
    ]
    return {"tool_calls": calls} if calls else {}


def _call_arguments(block: Mapping[str, object]) -> object:
    found = block.get("arguments", block.get("input"))
    return found if isinstance(found, str | dict) else {}


def _parse_time(value: object) -> float:
    """Return seconds since the Unix epoch, from ISO 8601 or milliseconds; 0 for anything else."""
    if isinstance(value, int | float):
        return value / 1000 if 1e11 < value < 1e14 else float(value) if 0 < value < 1e11 else 0.0
    if isinstance(value, str):
        try:
            return datetime.datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return 0.0
    return 0.0


def _get_path(value: object, *path: str) -> object:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
