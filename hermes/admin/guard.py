"""Answers what the safety rules would decide about a command, a path, a URL or a text."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_
from hermes.safety.paths import Places
from hermes.safety.shell.findings import CommandEffect, CommandFinding, EffectKind, Verdict
from hermes.sessions.options import SessionOptions
from hermes.tools.named_paths import write_as_typed
from hermes.util.localizable import join_localizable

if TYPE_CHECKING:
    from hermes.safety.secrets.redactor import Redactor
    from hermes.safety.urls import UrlPolicy
    from hermes.tools.permissions.policy_gate import PolicyGate

Subject = Literal["command", "path", "url", "text", "secrets"]
FIELDS: dict[str, str] = {"command": "cmd", "path": "path", "url": "url", "text": "text", "secrets": "text"}
"""The member of a question that holds its subject."""
_TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - a rule names them


class PolicyQuestion(Struct, frozen=True):
    """One question. Members that its kind does not use are ignored."""

    cmd: str | None = None
    path: str | None = None
    url: str | None = None
    text: str | None = None
    op: Literal["read", "write"] = "read"
    cwd: str = ""


class PolicyChecker:
    """Answers questions as the gate would, for a backend that confines commands (`sandboxed`) or one that does not.

    `home` is the person's home folder; empty: the environment's. Raises ConfigError for settings that cannot be used.
    """

    def __init__(
        self, environ: Mapping[str, str], home: HermesHome, *, sandboxed: bool = False, user_home: str = ""
    ) -> None:
        self._environ = environ
        self._home = home
        self._sandboxed = sandboxed
        self._user_home = os.path.realpath(user_home or environ.get("HOME") or os.path.expanduser("~"))
        self._settings: Settings = load_settings(home).settings
        self._gate: PolicyGate | None = None
        self._urls: UrlPolicy | None = None
        self._redactor: Redactor | None = None
        self._places = lru_cache(maxsize=64)(self._build_places)

    def answer_question(self, subject: Subject, question: PolicyQuestion) -> Plain:
        """Answer one question. Raises UsageError for one without a subject."""
        asked = getattr(question, FIELDS[subject])
        if asked is None:
            raise UsageError(N_("The question has no member `{FIELDS}`.", FIELDS=FIELDS[subject]))
        cwd = os.path.abspath(question.cwd or os.getcwd())
        if subject == "command":
            return self.check_command(asked, cwd)
        if subject == "path":
            return self.check_path(asked, question.op, cwd)
        if subject == "url":
            return self.check_url(asked)
        return self.find_injections(asked) if subject == "text" else self.redact_secrets(asked)

    def check_command(self, text: str, cwd: str) -> Plain:
        """Return the verdict on a shell command in a folder, which counts as the workspace."""
        from hermes.safety.policy import policy_subjects
        from hermes.safety.shell.commands import analyze_command
        from hermes.tools.permissions.call_facts import CallFacts

        gate = self._gate or self._read_policy()
        judged = analyze_command(text, cwd, self._places(cwd))
        findings, subjects = (
            judged.relevant_findings(sandboxed=self._sandboxed),
            policy_subjects(judged, judged.effects, text),
        )
        weighed = CallFacts(
            findings=findings, effects=judged.effects, subject=text, cwd=cwd, line=text.strip(), subjects=subjects
        )
        return _format_answer(*_summarize_findings(gate.list_objections(weighed)), judged.effects)

    def check_path(self, path: str, op: Literal["read", "write"], cwd: str) -> Plain:
        """Return the verdict on reading or writing a path."""
        from hermes.safety.path_policy import judge_path

        judged = judge_path(path, op, cwd, self._places(cwd))
        kind = EffectKind.READS if op == "read" else EffectKind.WRITES
        effects = (CommandEffect(kind, targets=(judged.real,)),) if judged.real else ()
        if (
            judged.verdict is Verdict.ALLOW
            and op == "write"
            and self._sandboxed
            and not self._is_writable(judged.real, cwd)
        ):
            return _format_answer(Verdict.ASK, "outside-workspace", f"{judged.real} is outside the workspace", effects)
        return _format_answer(judged.verdict, judged.rule, judged.reason, effects)

    def check_url(self, url: str) -> Plain:
        """Return the verdict on the text of a URL; its host name is only looked up when it is fetched."""
        from hermes.safety.urls import judge_url

        judged = judge_url(url, self._urls or self._read_urls())
        effects = (CommandEffect(EffectKind.FETCHES, targets=(judged.host,)),) if judged.host else ()
        return _format_answer(judged.verdict, judged.rule, judged.reason, effects)

    def find_injections(self, text: str) -> Plain:
        """Return the passages of a text that read like instructions to an agent."""
        from hermes.safety.injection import find_injections

        return {"marks": [to_plain(mark) for mark in find_injections(text)]}

    def redact_secrets(self, text: str) -> Plain:
        """Return the text without secrets: those that this process holds, and what looks like one."""
        if self._redactor is None:
            from hermes.sessions.secrets import build_redactor

            self._redactor = build_redactor(self._environ, self._home, self._settings)
        return {"redacted": self._redactor.redact(text)}

    def _build_places(self, cwd: str) -> Places:
        root = os.path.realpath(self._home.root)
        return Places(home=self._user_home, hermes=root, workspace=cwd, own=())

    def _is_writable(self, real: str, cwd: str) -> bool:
        opened = (os.path.realpath(cwd), *_TEMPORARY_FOLDERS, *self._settings.terminal.sandbox.writable)
        return any(real == folder or real.startswith(f"{folder}/") for folder in opened)

    def _read_policy(self) -> "PolicyGate":
        from hermes.sessions.session_tools import build_policy
        from hermes.tools.permissions.policy_gate import PolicyGate

        self._gate = PolicyGate(build_policy(self._settings, SessionOptions()))
        return self._gate

    def _read_urls(self) -> "UrlPolicy":
        from hermes.safety.urls import UrlPolicy

        self._urls = UrlPolicy(private=tuple(self._settings.security.allow_private_urls))
        return self._urls


def _summarize_findings(standing: Sequence[CommandFinding]) -> tuple[Verdict, str, str]:
    """Return verdict, rule and reason of the findings that remain against a call."""
    if not standing:
        return Verdict.ALLOW, "", ""
    return standing[0].verdict, standing[0].rule, join_localizable("; ", dict.fromkeys(one.reason for one in standing))


def _format_answer(verdict: Verdict, rule: str, reason: str, effects: tuple[CommandEffect, ...]) -> Plain:
    return {
        "verdict": verdict.value,
        "rule": rule,
        "reason": reason,
        "effects": [to_plain(effect) for effect in effects],
    }


def name_effect(effect: Mapping[str, Sequence[str]]) -> str:
    """Return what an effect of an answer is about, as a person would type it: paths or hosts, else its command."""
    return write_as_typed(", ".join(effect["targets"]) or " ".join(effect["argv"]))
