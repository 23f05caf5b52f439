"""Name the type of today's tree for each kind of the corpus."""

from enum import Enum

from hermes.admin.backup import BackupManifest
from hermes.admin.cron import JobView
from hermes.admin.doctor import DoctorCheck as ShownCheck
from hermes.admin.guard import PolicyQuestion as GuardQuestion
from hermes.admin.logs import LogEntry as ShownLogEntry
from hermes.admin.models.models import ModelTestResult as ShownModelTried
from hermes.admin.people.identity import PersonRole
from hermes.admin.service.gateway_log import GatewayLogEntry as GatewayLogLine
from hermes.admin.toolsets import ToolsetChange as ShownToolsetSwitched
from hermes.admin.webhooks import SignatureScheme, WebhookRoute
from hermes.checkpoints.restore import RestoreOutcome as RestoreFate
from hermes.checkpoints.scan import FolderListing
from hermes.commands.context import PostMode as DeliveryWay
from hermes.config.auth_file import AuthEntry
from hermes.config.display import BusyMode, EditingMode, NotifyMode, ToolProgress
from hermes.config.gateway import AccountSettings, ResetMode, RoleSettings, Streaming
from hermes.config.load import _CachedDocument as ConfigCache
from hermes.config.plugin_consents import _ConsentDocument as PluginConsentDocument
from hermes.config.settings import CodeEngine, Evolution, McpTrust, Settings, Strategy
from hermes.config.speech import VoiceMode
from hermes.config.tool_settings import ImageInput
from hermes.config.trusted_folders import _TrustDocument as Trust
from hermes.context.compaction import CompactionMemo
from hermes.core.chats import (
    AuditEntry,
    ChatKind,
    DeliveryState,
    InboundEvent,
    KnownPerson,
    MediaKind,
    Outgoing,
    PendingPairingCode,
    Place,
    PlatformHandle,
)
from hermes.core.checkpoints import FileState
from hermes.core.checkpoints import Kind as FileKind
from hermes.core.checkpoints import Purpose as CheckpointPurpose
from hermes.core.events import Event
from hermes.core.events import Level as NoticeLevel
from hermes.core.frame import EpochFrame, Rewrite, TransientContext
from hermes.core.messages import FinishReason, Message, Part, Role, Source, ToolResultPart, ToolStatus
from hermes.core.outcomes import AnswerScope, ExitReason, FailureKind
from hermes.core.outcomes import Scope as FailureScope
from hermes.core.usage import Certainty, Usage
from hermes.cron.job import JobSpec
from hermes.execution.base import NetworkMode, StopOutcome
from hermes.execution.worktrees import WorktreeRecord as Worktree
from hermes.gateway.accounts import AccountHealth
from hermes.gateway.platforms.api_server.adapter import PLATFORM as API_SERVER
from hermes.gateway.platforms.api_server.chat_completions import ChatRequest
from hermes.gateway.platforms.api_server.keys import ApiScope
from hermes.gateway.platforms.api_server.responses import ResponseRequest
from hermes.gateway.platforms.api_server.runs import ApprovalDecision as ApiRunDecision
from hermes.gateway.platforms.api_server.runs import RunRequest, StoredRunRequest
from hermes.gateway.platforms.api_server.sessions import ForkSessionRequest as ApiSessionBranch
from hermes.gateway.platforms.api_server.sessions import NewSessionRequest
from hermes.gateway.platforms.api_server.sessions import RenameSessionRequest as ApiSessionChange
from hermes.gateway.platforms.api_server.sessions import SessionMessageRequest as ApiSessionMessage
from hermes.gateway.platforms.discord.adapter import PLATFORM as DISCORD
from hermes.gateway.platforms.email.adapter import PLATFORM as EMAIL
from hermes.gateway.platforms.matrix.adapter import PLATFORM as MATRIX
from hermes.gateway.platforms.ntfy import PLATFORM as NTFY
from hermes.gateway.platforms.slack.adapter import PLATFORM as SLACK
from hermes.gateway.platforms.telegram.adapter import PLATFORM as TELEGRAM
from hermes.gateway.platforms.webhook.adapter import PLATFORM as WEBHOOK
from hermes.gateway.platforms.webhook.server import StoredWebhookRun as ReportWish
from hermes.hooks.statistics_file import HookRecord
from hermes.ipc.frames import RequestFrame, ResponseFrame
from hermes.mcp.tools import RememberedTool
from hermes.memory.files import MemoryTarget
from hermes.memory.review import ReviewFindings
from hermes.oauth.token_store import _Document as OAuthSignIns
from hermes.runtime.mailbox import InboundMessage
from hermes.safety.injection import InjectionMark as ShownSuspicionMark
from hermes.safety.shell.findings import CommandEffect as ShownEffect
from hermes.safety.shell.findings import EffectKind, Verdict
from hermes.skills.catalog import SkillTier
from hermes.skills.catalog import _Cache as SkillCache
from hermes.skills.files import _Binary as SkillBinary
from hermes.store.jobs import InstantState, JobState
from hermes.store.jobs import JobDeliveryState as JobDelivery
from hermes.store.records import EffectState, MessageState, SessionRow, TurnRowState
from hermes.store.revisions import RevisionAuthor, RevisionState
from hermes.tools.session import Todo

UNIONS: dict[str, object] = {
    "part": Part,
    "event": Event,
    "ask": RequestFrame,
    "tell": ResponseFrame,
}
"""Tagged unions: each member is a kind of its own, named by its tag."""
KINDS: dict[str, type] = {
    "plugin_consents": PluginConsentDocument,
    "hook_record": HookRecord,
    "oauth_sign_ins": OAuthSignIns,
    "message": Message,
    "epoch_frame": EpochFrame,
    "aside": TransientContext,
    "usage": Usage,
    "tool_result": ToolResultPart,
    "todo": Todo,
    "inbound": InboundMessage,
    "arrival": InboundEvent,
    "place": Place,
    "outgoing": Outgoing,
    "job_spec": JobSpec,
    "compaction_memo": CompactionMemo,
    "run_wish": StoredRunRequest,
    "report_wish": ReportWish,
    "auth_entry": AuthEntry,
    "trust": Trust,
    "config_cache": ConfigCache,
    "settings": Settings,
    "account_settings": AccountSettings,
    "backup_manifest": BackupManifest,
    "webhook_route": WebhookRoute,
    "worktree": Worktree,
    "gateway_log_line": GatewayLogLine,
    "mcp_tool_seen": RememberedTool,
    "skill_cache": SkillCache,
    "skill_binary": SkillBinary,
    "api.chat_request": ChatRequest,
    "api.response_request": ResponseRequest,
    "api.run_request": RunRequest,
    "api.run_decision": ApiRunDecision,
    "api.new_session": NewSessionRequest,
    "api.session_change": ApiSessionChange,
    "api.session_branch": ApiSessionBranch,
    "api.session_message": ApiSessionMessage,
    "shown.session": SessionRow,
    "shown.job": JobView,
    "shown.pairing_code": PendingPairingCode,
    "shown.audit_row": AuditEntry,
    "shown.known_person": KnownPerson,
    "shown.handle": PlatformHandle,
    "shown.person_rights": RoleSettings,
    "shown.effect": ShownEffect,
    "shown.suspicion_mark": ShownSuspicionMark,
    "shown.log_entry": ShownLogEntry,
    "shown.model_tried": ShownModelTried,
    "shown.check": ShownCheck,
    "shown.toolset_switched": ShownToolsetSwitched,
    "guard_question": GuardQuestion,
    "review_findings": ReviewFindings,
}
"""Kinds that are stored or sent as JSON."""
PACKED: dict[str, type] = {
    "file_state": FileState,
    "folder_listing": FolderListing,
}
"""Kinds that are stored as MessagePack."""
OPTIONS: dict[str, type] = {
    "options.api_server": API_SERVER.options,
    "options.discord": DISCORD.options,
    "options.email": EMAIL.options,
    "options.matrix": MATRIX.options,
    "options.ntfy": NTFY.options,
    "options.slack": SLACK.options,
    "options.telegram": TELEGRAM.options,
    "options.webhook": WEBHOOK.options,
}
"""Options of chat platforms, which stand in `config.yaml`."""
ENUMS: dict[str, type[Enum]] = {
    "enum.message_state": MessageState,
    "enum.turn_state": TurnRowState,
    "enum.effect_state": EffectState,
    "enum.revision_state": RevisionState,
    "enum.revision_author": RevisionAuthor,
    "enum.job_state": JobState,
    "enum.instant_state": InstantState,
    "enum.job_delivery": JobDelivery,
    "enum.delivery_state": DeliveryState,
    "enum.chat_kind": ChatKind,
    "enum.media_kind": MediaKind,
    "enum.exit_reason": ExitReason,
    "enum.failure_kind": FailureKind,
    "enum.failure_scope": FailureScope,
    "enum.answer_scope": AnswerScope,
    "enum.file_kind": FileKind,
    "enum.checkpoint_purpose": CheckpointPurpose,
    "enum.role": Role,
    "enum.finish_reason": FinishReason,
    "enum.source": Source,
    "enum.tool_status": ToolStatus,
    "enum.rewrite": Rewrite,
    "enum.cost_certainty": Certainty,
    "enum.notice_level": NoticeLevel,
    "enum.person_role": PersonRole,
    "enum.delivery_way": DeliveryWay,
    "enum.verdict": Verdict,
    "enum.effect_kind": EffectKind,
    "enum.skill_tier": SkillTier,
    "enum.memory_target": MemoryTarget,
    "enum.restore_fate": RestoreFate,
    "enum.account_health": AccountHealth,
    "enum.api_scope": ApiScope,
    "enum.stopped": StopOutcome,
    "enum.image_input": ImageInput,
    "enum.reset_mode": ResetMode,
    "enum.streaming": Streaming,
    "enum.busy_mode": BusyMode,
    "enum.voice_mode": VoiceMode,
    "enum.tool_progress": ToolProgress,
    "enum.notify_mode": NotifyMode,
    "enum.editing_mode": EditingMode,
    "enum.mcp_trust": McpTrust,
    "enum.skill_evolution": Evolution,
    "enum.key_strategy": Strategy,
    "enum.webhook_scheme": SignatureScheme,
    "enum.terminal_network": NetworkMode,
    "enum.code_engine": CodeEngine,
}
"""Enumerations whose values stand in columns of the database, in settings, or in JSON."""
