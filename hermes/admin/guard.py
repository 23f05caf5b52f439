"""What Hermes would say to a command, a path, a URL or a text: the rules that the agent runs under."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, to_builtins

from hermes.config.home import Home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.errors import UsageError
from hermes.safety.places import Places
from hermes.safety.shell.findings import Effect, EffectKind, Finding, Verdict
from hermes.sessions.options import Options

if TYPE_CHECKING:
    from hermes.safety.secrets.redactor import Redactor
    from hermes.safety.urls import UrlPolicy
    from hermes.tools.permissions.policy_gate import RuleGate

Plain = dict[str, object]
Subject = Literal["command", "path", "url", "text", "secrets"]
FIELDS: dict[str, str] = {"command": "cmd", "path": "path", "url": "url", "text": "text", "secrets": "text"}
"""The member of a question that holds what is asked about."""
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - a rule names them


class Question(Struct, frozen=True):
    """One question. What its kind has no use for is left alone."""

    cmd: str | None = None
    path: str | None = None
    url: str | None = None
    text: str | None = None
    op: Literal["read", "write"] = "read"
    cwd: str = ""


class Guard:
    """Answers questions as the gate would, for a backend that holds commands back (`sandboxed`) or one that does not.

    `home` is the person's home folder; empty: the environment's. Raises ConfigError for settings that cannot be used.
    """

    def __init__(self, environ: Mapping[str, str], home: Home, *, sandboxed: bool = False, user_home: str = "") -> None:
        self._environ = environ
        self._home = home
        self._sandboxed = sandboxed
        self._user_home = os.path.realpath(user_home or environ.get("HOME") or os.path.expanduser("~"))
        self._settings: Settings = load_settings(home).settings
        self._gate: RuleGate | None = None
        self._urls: UrlPolicy | None = None
        self._redactor: Redactor | None = None
        self._places = lru_cache(maxsize=64)(self._places_of)

    def ask(self, subject: Subject, question: Question) -> Plain:
        """The answer to one question. Raises UsageError for one that asks nothing."""
        asked = getattr(question, FIELDS[subject])
        if asked is None:
            raise UsageError(f"The question has no member `{FIELDS[subject]}`.")
        cwd = os.path.abspath(question.cwd or os.getcwd())
        if subject == "command":
            return self.command(asked, cwd)
        if subject == "path":
            return self.path(asked, question.op, cwd)
        if subject == "url":
            return self.url(asked)
        return self.marks(asked) if subject == "text" else self.secrets(asked)

    def command(self, text: str, cwd: str) -> Plain:
        """What may happen with a shell command in a folder, which counts as the workspace."""
        from hermes.safety.policy import subjects_of
        from hermes.safety.shell.commands import analyse
        from hermes.tools.permissions.evaluate import Weighed

        gate = self._gate or self._read_policy()
        judged = analyse(text, cwd, self._places(cwd))
        findings, subjects = judged.held(sandboxed=self._sandboxed), subjects_of(judged, judged.effects, text)
        weighed = Weighed(findings, judged.effects, text, cwd, text.strip(), subjects)
        return _answer(*_settled(gate.standing(weighed, {})), judged.effects)

    def path(self, path: str, op: Literal["read", "write"], cwd: str) -> Plain:
        """What may happen with a path."""
        from hermes.safety.path_policy import judge_path

        judged = judge_path(path, op, cwd, self._places(cwd))
        kind = EffectKind.READS if op == "read" else EffectKind.WRITES
        effects = (Effect(kind, targets=(judged.real,)),) if judged.real else ()
        if (
            judged.verdict is Verdict.ALLOW
            and op == "write"
            and self._sandboxed
            and not self._writable(judged.real, cwd)
        ):
            return _answer(Verdict.ASK, "outside-workspace", f"{judged.real} is outside the workspace", effects)
        return _answer(judged.verdict, judged.rule, judged.reason, effects)

    def url(self, url: str) -> Plain:
        """What may happen with a URL, as far as its text tells: names are looked up when it is fetched."""
        from hermes.safety.urls import judge_url

        judged = judge_url(url, self._urls or self._read_urls())
        effects = (Effect(EffectKind.FETCHES, targets=(judged.host,)),) if judged.host else ()
        return _answer(judged.verdict, judged.rule, judged.reason, effects)

    def marks(self, text: str) -> Plain:
        """The passages of a text that read like orders to an agent."""
        from hermes.safety.injection import marks

        return {"marks": [to_builtins(mark) for mark in marks(text)]}

    def secrets(self, text: str) -> Plain:
        """The text without secrets: those that this process holds, and what has a secret's shape."""
        if self._redactor is None:
            from hermes.sessions.secrets import redactor_for

            self._redactor = redactor_for(self._environ, self._home, self._settings)
        return {"redacted": self._redactor.redact(text)}

    def _places_of(self, cwd: str) -> Places:
        root = os.path.realpath(self._home.root)
        return Places(home=self._user_home, hermes=root, workspace=cwd, own=())

    def _writable(self, real: str, cwd: str) -> bool:
        opened = (os.path.realpath(cwd), *_TEMPORARY, *self._settings.terminal.sandbox.writable)
        return any(real == folder or real.startswith(f"{folder}/") for folder in opened)

    def _read_policy(self) -> "RuleGate":
        from hermes.sessions.gate_factory import policy_of
        from hermes.tools.permissions.policy_gate import RuleGate

        self._gate = RuleGate(policy_of(self._settings, Options()))
        return self._gate

    def _read_urls(self) -> "UrlPolicy":
        from hermes.safety.urls import UrlPolicy

        self._urls = UrlPolicy(private=tuple(self._settings.security.allow_private_urls))
        return self._urls


def _settled(standing: Sequence[Finding]) -> tuple[Verdict, str, str]:
    """Verdict, rule and reason of what is left against a call."""
    if not standing:
        return Verdict.ALLOW, "", ""
    return standing[0].verdict, standing[0].rule, "; ".join(dict.fromkeys(one.reason for one in standing))


def _answer(verdict: Verdict, rule: str, reason: str, effects: tuple[Effect, ...]) -> Plain:
    return {
        "verdict": verdict.value,
        "rule": rule,
        "reason": reason,
        "effects": [to_builtins(effect) for effect in effects],
    }
