"""Hermes: a self-improving personal agent.

`AIAgent` is the synchronous API, the functions beside it call tools without an agent; each is imported on first use so
that `import hermes` stays cheap.
"""

TYPE_CHECKING = False  # as in `typing`, whose import would cost a third of a short run
if TYPE_CHECKING:
    from hermes.sessions.python_library.ai_agent import AIAgent
    from hermes.sessions.python_library.direct_calls import (
        check_toolset_requirements,
        close_tool_session,
        get_tool_definitions,
        get_toolset_for_tool,
        handle_function_call,
    )

__all__ = [
    "AIAgent",
    "__version__",
    "check_toolset_requirements",
    "close_tool_session",
    "get_tool_definitions",
    "get_toolset_for_tool",
    "handle_function_call",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "AIAgent":
        from hermes.sessions.python_library.ai_agent import AIAgent

        return AIAgent
    if name in __all__:
        from hermes.sessions.python_library import direct_calls

        found: object = getattr(direct_calls, name)
        return found
    raise AttributeError(f"module 'hermes' has no attribute {name!r}")
