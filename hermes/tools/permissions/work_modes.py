"""What a session's mode adds to the gate, or takes from its questions (`hermes.core.work_mode`)."""

from hermes.execution.base import TerminalBackend
from hermes.i18n.messages import N_
from hermes.safety.shell.findings import EffectKind
from hermes.tools.permissions.call_facts import CallFacts
from hermes.tools.tool import Tool

PLAN_RULE = "plan-mode"
_LASTING_KINDS = (EffectKind.SENDS, EffectKind.DESTROYS, EffectKind.PERSISTS, EffectKind.ESCALATES, EffectKind.KILLS)
HELD_RULES = frozenset(
    {"unclear", "too-long", "nested-program", "program-text", "chmod-open", "mv-away", "fills", "bomb"}
)
"""Rules about commands that may harm this machine, which a sandbox keeps from it: in auto mode not asked about."""


def can_keep_files(backend: TerminalBackend) -> bool:
    """Return whether a backend can run a command that cannot change the workspace."""
    return backend.name == "sandbox"


def explain_plan_refusal(tool: Tool, facts: CallFacts, backend: TerminalBackend) -> str:
    """Return why a call is refused while a plan is made; empty where it changes nothing."""
    kept = any(one.kind is EffectKind.PERSISTS for one in facts.own_effects)
    if kept or facts.settings_file or any(one.use.write for one in facts.paths):
        return N_("this is plan mode, in which nothing is changed")
    if facts.line:
        return _explain_refused_command(facts, backend)
    is_reading = tool.polls or (tool.repeatable and not tool.housekeeping)
    return "" if is_reading else N_("this is plan mode, and only tools that read are used in it")


def _explain_refused_command(facts: CallFacts, backend: TerminalBackend) -> str:
    if facts.process_id or any(one.kind in _LASTING_KINDS for one in facts.judged.effects):
        return N_("this is plan mode, and it would change more than files of the workspace")
    if not facts.is_read_only and not can_keep_files(backend):
        return N_("this is plan mode, and nothing here keeps this command from changing files")
    return ""
