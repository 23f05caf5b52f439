"""Puts the parts together: home, settings, store, transport, model, tools, and live sessions over them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.agent.turn import Deps
from hermes.app.trajectory import trajectory_writer
from hermes.config.environment import with_dotenv
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.context.prompt import LOCAL_PROMPT, build_prompt, identity
from hermes.core.errors import ConfigError, NotFoundError, UsageError
from hermes.core.frame import EpochFrame, Sampling
from hermes.core.ids import new_session_id
from hermes.core.messages import Message
from hermes.llm.client import ModelClient
from hermes.providers.resolve import ModelChoice, resolve
from hermes.providers.wire import Endpoint
from hermes.providers.wires import wire
from hermes.runtime.actor import SessionActor
from hermes.runtime.approvals import Approvals
from hermes.runtime.conversation import open_conversation
from hermes.runtime.recorder import Recorder
from hermes.store.store import Store
from hermes.util.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a front-end chooses; what it leaves empty comes from the settings."""

    model: str = ""
    provider: str = ""
    base_url: str = ""
    api_key: str = ""
    api_mode: str = ""
    context_length: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str = ""
    max_turns: int | None = None
    tool_delay: float | None = None
    enabled_toolsets: tuple[str, ...] | None = None
    disabled_toolsets: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    platform: str = "cli"
    save_trajectories: bool = False
    cwd: str = ""
