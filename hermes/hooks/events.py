"""The moments of a session at which hooks are called, and what a hook may do at each."""

from enum import StrEnum

from msgspec import Struct


class HookEvent(StrEnum):
    """A moment at which hooks are called, by the name that a manifest or the settings give it."""

    PRE_TOOL_CALL = "pre_tool_call"
    """Before a call is decided about."""
    POST_TOOL_CALL = "post_tool_call"
    """After a call has run."""
    TRANSFORM_TOOL_RESULT = "transform_tool_result"
    """Before the model is shown the result of a call."""
    TRANSFORM_TERMINAL_OUTPUT = "transform_terminal_output"
    """Before the model is shown the output of a command."""
    PRE_APPROVAL_REQUEST = "pre_approval_request"
    """Before a person is asked about a call."""
    POST_APPROVAL_RESPONSE = "post_approval_response"
    """After a call was answered for, or refused."""
    PRE_LLM_CALL = "pre_llm_call"
    """Before a turn begins with a person's message."""
    POST_LLM_CALL = "post_llm_call"
    """After a turn has ended."""
    PRE_VERIFY = "pre_verify"
    """Before an answer ends its turn."""
    TRANSFORM_LLM_OUTPUT = "transform_llm_output"
    """Before an answer is handed to whoever asked."""
    PRE_API_REQUEST = "pre_api_request"
    """Before a request to the model."""
    POST_API_REQUEST = "post_api_request"
    """After an answer of the model."""
    API_REQUEST_ERROR = "api_request_error"
    """After a request to the model has failed."""
    ON_SESSION_START = "on_session_start"
    """When a session is opened."""
    ON_SESSION_END = "on_session_end"
    """After each turn of a session."""
    ON_SESSION_FINALIZE = "on_session_finalize"
    """When a session is closed."""
    ON_SESSION_RESET = "on_session_reset"
    """When a chat begins a new session."""
    PRE_COMPRESS = "pre_compress"
    """Before a conversation is made shorter."""
    POST_COMPRESS = "post_compress"
    """After a conversation was made shorter."""
    NOTIFICATION = "notification"
    """When a person is needed."""
    SUBAGENT_START = "subagent_start"
    """When a sub-agent begins."""
    SUBAGENT_STOP = "subagent_stop"
    """When a sub-agent has ended."""
    PRE_GATEWAY_DISPATCH = "pre_gateway_dispatch"
    """Before a message from a chat is handled."""
    GATEWAY_STARTUP = "gateway:startup"
    """When the gateway is ready."""


class HookRole(StrEnum):
    """What a hook may do at an event."""

    GUARD = "guard"
    """It may refuse: one that fails in any way refuses."""
    TRANSFORM = "transform"
    """It may replace a text that a model or a person is shown: one that fails leaves the text out."""
    OBSERVER = "observer"
    """It is told, and may add context where the event takes some: one that fails is a line for the person."""


class EventTraits(Struct, frozen=True):
    """What an event is for hooks."""

    role: HookRole
    takes_context: bool = False
    """Whether what a hook says is added for the model."""
    has_tool: bool = False
    """Whether matchers compare the name of a tool."""


_GUARD, _TRANSFORM, _OBSERVER = HookRole.GUARD, HookRole.TRANSFORM, HookRole.OBSERVER
EVENT_TRAITS = {
    HookEvent.PRE_TOOL_CALL: EventTraits(_GUARD, takes_context=True, has_tool=True),
    HookEvent.POST_TOOL_CALL: EventTraits(_OBSERVER, takes_context=True, has_tool=True),
    HookEvent.TRANSFORM_TOOL_RESULT: EventTraits(_TRANSFORM, has_tool=True),
    HookEvent.TRANSFORM_TERMINAL_OUTPUT: EventTraits(_TRANSFORM, has_tool=True),
    HookEvent.PRE_APPROVAL_REQUEST: EventTraits(_GUARD, has_tool=True),
    HookEvent.POST_APPROVAL_RESPONSE: EventTraits(_OBSERVER, has_tool=True),
    HookEvent.PRE_LLM_CALL: EventTraits(_GUARD, takes_context=True),
    HookEvent.POST_LLM_CALL: EventTraits(_OBSERVER),
    HookEvent.PRE_VERIFY: EventTraits(_OBSERVER),
    HookEvent.TRANSFORM_LLM_OUTPUT: EventTraits(_TRANSFORM),
    HookEvent.PRE_API_REQUEST: EventTraits(_GUARD),
    HookEvent.POST_API_REQUEST: EventTraits(_OBSERVER),
    HookEvent.API_REQUEST_ERROR: EventTraits(_OBSERVER),
    HookEvent.ON_SESSION_START: EventTraits(_OBSERVER, takes_context=True),
    HookEvent.ON_SESSION_END: EventTraits(_OBSERVER),
    HookEvent.ON_SESSION_FINALIZE: EventTraits(_OBSERVER),
    HookEvent.ON_SESSION_RESET: EventTraits(_OBSERVER),
    HookEvent.PRE_COMPRESS: EventTraits(_GUARD),
    HookEvent.POST_COMPRESS: EventTraits(_OBSERVER),
    HookEvent.NOTIFICATION: EventTraits(_OBSERVER),
    HookEvent.SUBAGENT_START: EventTraits(_OBSERVER, takes_context=True),
    HookEvent.SUBAGENT_STOP: EventTraits(_OBSERVER),
    HookEvent.PRE_GATEWAY_DISPATCH: EventTraits(_GUARD),
    HookEvent.GATEWAY_STARTUP: EventTraits(_OBSERVER),
}
