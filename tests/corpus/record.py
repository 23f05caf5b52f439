"""Write `kinds.jsonl`: values of every kind that an older Hermes stores or sends, as that Hermes encodes them.

Run with the interpreter and in the folder of the older tree: `python .../tests/corpus/record.py OUT`. The names below
are those of the older tree and stay as they are, whatever the newer one calls them.
"""

import base64
import importlib
import json
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import msgspec

from tests.corpus.values import union_members, values_of

UNIONS = {
    "part": "hermes.core.messages:Part",
    "event": "hermes.core.events:Event",
    "ask": "hermes.app.ports.frames:Ask",
    "tell": "hermes.app.ports.frames:Tell",
}
"""Tagged unions: each member is a kind of its own, named by its tag."""
KINDS = {
    # hermes.db
    "message": "hermes.core.messages:Message",
    "epoch_frame": "hermes.core.frame:EpochFrame",
    "aside": "hermes.core.frame:Aside",
    "usage": "hermes.core.usage:Usage",
    "tool_result": "hermes.core.messages:ToolResultPart",
    "inbound": "hermes.runtime.mailbox:Inbound",
    "arrival": "hermes.core.chats:Arrival",
    "place": "hermes.core.chats:Place",
    "outgoing": "hermes.core.chats:Outgoing",
    "job_spec": "hermes.cron.job:Spec",
    "compaction_memo": "hermes.context.engines.compressor:Memo",
    "run_wish": "hermes.gateway.api.runs:RunWish",
    "report_wish": "hermes.gateway.webhook.server:Marked",
    # files of a home
    "auth_entry": "hermes.config.auth_file:AuthEntry",
    "trust": "hermes.config.trusted_folders:_File",
    "config_cache": "hermes.config.load:_Cached",
    "settings": "hermes.config.settings:Settings",
    "account_settings": "hermes.config.gateway:AccountSettings",
    "backup_manifest": "hermes.app.archive:Manifest",
    "webhook_route": "hermes.app.webhooks:Route",
    "worktree": "hermes.app.worktrees:Record",
    "gateway_log_line": "hermes.app.services.log:Line",
    "mcp_tool_seen": "hermes.tools.mcp.known:Remembered",
    "skill_cache": "hermes.skills.catalog:_Cache",
    "skill_binary": "hermes.skills.files:_Binary",
    # what programs say to the API server
    "api.chat_request": "hermes.gateway.api.chat:ChatRequest",
    "api.response_request": "hermes.gateway.api.responses:ResponseRequest",
    "api.run_request": "hermes.gateway.api.runs:RunRequest",
    "api.run_decision": "hermes.gateway.api.runs:Decision",
    "api.new_session": "hermes.gateway.api.sessions:NewSession",
    "api.session_change": "hermes.gateway.api.sessions:Changed",
    "api.session_branch": "hermes.gateway.api.sessions:Branching",
    "api.session_message": "hermes.gateway.api.sessions:Saying",
    # what is shown as JSON by verbs and the API server
    "shown.session": "hermes.store.records:SessionRow",
    "shown.job": "hermes.cron.shown:JobShown",
    "shown.pairing_code": "hermes.core.chats:WaitingCode",
    "shown.audit_row": "hermes.core.chats:Deed",
    "shown.known_person": "hermes.core.chats:KnownPerson",
    "shown.handle": "hermes.core.chats:Handle",
    "shown.person_rights": "hermes.config.gateway:RoleSettings",
    "shown.effect": "hermes.safety.findings:Effect",
    "shown.suspicion_mark": "hermes.safety.suspicion:Mark",
    "shown.log_entry": "hermes.app.logs:Entry",
    "shown.model_tried": "hermes.app.models:Tried",
    "shown.check": "hermes.app.checks:Check",
    "shown.toolset_switched": "hermes.app.toolsets:Switched",
    "guard_question": "hermes.app.guard:Question",
    # what a model is asked to write
    "review_findings": "hermes.memory.review:Findings",
}
PACKED = {
    "file_state": "hermes.core.checkpoints:FileState",
    "folder_listing": "hermes.tools.checkpoints.scan:Listing",
}
"""Kinds that are stored as MessagePack."""
OPTIONS = {
    "options.api_server": "hermes.gateway.platforms.api_server",
    "options.discord": "hermes.gateway.platforms.discord",
    "options.email": "hermes.gateway.platforms.email",
    "options.matrix": "hermes.gateway.platforms.matrix",
    "options.ntfy": "hermes.gateway.platforms.ntfy",
    "options.slack": "hermes.gateway.platforms.slack",
    "options.telegram": "hermes.gateway.platforms.telegram",
    "options.webhook": "hermes.gateway.platforms.webhook",
}
"""Modules of chat platforms, whose options stand in `config.yaml`."""
ENUMS = {
    "enum.message_state": "hermes.store.records:MessageState",
    "enum.turn_state": "hermes.store.records:TurnState",
    "enum.effect_state": "hermes.store.records:EffectState",
    "enum.revision_state": "hermes.store.revisions:RevisionState",
    "enum.revision_author": "hermes.store.revisions:Author",
    "enum.job_state": "hermes.store.jobs:JobState",
    "enum.instant_state": "hermes.store.jobs:InstantState",
    "enum.job_delivery": "hermes.store.jobs:Delivery",
    "enum.delivery_state": "hermes.core.chats:DeliveryState",
    "enum.chat_kind": "hermes.core.chats:ChatKind",
    "enum.media_kind": "hermes.core.chats:MediaKind",
    "enum.exit_reason": "hermes.core.outcomes:ExitReason",
    "enum.failure_kind": "hermes.core.outcomes:FailureKind",
    "enum.failure_scope": "hermes.core.outcomes:Scope",
    "enum.answer_scope": "hermes.core.outcomes:AnswerScope",
    "enum.file_kind": "hermes.core.checkpoints:Kind",
    "enum.checkpoint_purpose": "hermes.core.checkpoints:Purpose",
    "enum.role": "hermes.core.messages:Role",
    "enum.finish_reason": "hermes.core.messages:FinishReason",
    "enum.source": "hermes.core.messages:Source",
    "enum.tool_status": "hermes.core.messages:ToolStatus",
    "enum.rewrite": "hermes.core.frame:Rewrite",
    "enum.cost_certainty": "hermes.core.usage:Certainty",
    "enum.notice_level": "hermes.core.events:Level",
    "enum.person_role": "hermes.app.people:Role",
    "enum.delivery_way": "hermes.app.desk:Delivery",
    "enum.verdict": "hermes.safety.findings:Verdict",
    "enum.effect_kind": "hermes.safety.findings:EffectKind",
    "enum.skill_tier": "hermes.skills.catalog:Tier",
    "enum.memory_target": "hermes.memory.files:Target",
    "enum.restore_fate": "hermes.tools.checkpoints.restore:Fate",
    "enum.account_health": "hermes.gateway.accounts:Health",
    "enum.api_scope": "hermes.gateway.api.options:Scope",
    "enum.stopped": "hermes.tools.backends.base:Stopped",
    "enum.reset_mode": "hermes.config.gateway:ResetMode",
    "enum.streaming": "hermes.config.gateway:Streaming",
    "enum.busy_mode": "hermes.config.display:BusyMode",
    "enum.tool_progress": "hermes.config.display:ToolProgress",
    "enum.editing_mode": "hermes.config.display:EditingMode",
    "enum.mcp_trust": "hermes.config.settings:McpTrust",
    "enum.skill_evolution": "hermes.config.settings:Evolution",
    "enum.key_strategy": "hermes.config.settings:Strategy",
    "enum.webhook_scheme": "hermes.app.webhooks:Scheme",
    "enum.terminal_network": "hermes.tools.backends.base:Network",
}
"""Enumerations whose values stand in columns of the database, in settings, or in JSON."""


def found(name: str) -> object:
    """Return what `module:name` names."""
    module, _, path = name.partition(":")
    return reduce(getattr, path.split("."), importlib.import_module(module))


def lines() -> Iterator[dict[str, str]]:
    """Yield the lines of the corpus."""
    for family, name in UNIONS.items():
        for tag, member in union_members(found(name)).items():
            yield from encoded(f"{family}.{tag}", member)
    for kind, name in KINDS.items():
        yield from encoded(kind, found(name))
    for kind, name in OPTIONS.items():
        described = importlib.import_module(name)
        yield from encoded(kind, described.PLATFORM.options)
    for kind, name in PACKED.items():
        for one in values_of(found(name)):
            yield {"kind": kind, "base64": base64.b64encode(msgspec.msgpack.encode(one)).decode()}
    for kind, name in ENUMS.items():
        yield {"kind": kind, "bytes": msgspec.json.encode(list(found(name))).decode()}


def encoded(kind: str, of: object) -> Iterator[dict[str, str]]:
    """Yield a line for each value of a type."""
    for one in values_of(of):
        yield {"kind": kind, "bytes": msgspec.json.encode(one).decode()}


def main() -> None:
    """Write the corpus to the folder that is named."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines())
    (Path(sys.argv[1]) / "kinds.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, "")
    main()
