"""Hermes: a self-improving personal agent.

`AIAgent` is the synchronous API; it is imported on first use so that `import hermes` stays cheap.
"""

TYPE_CHECKING = False  # as in `typing`, whose import would cost a third of a short run
if TYPE_CHECKING:
    from hermes.sessions.python_library.ai_agent import AIAgent

__all__ = ["AIAgent", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "AIAgent":
        from hermes.sessions.python_library.ai_agent import AIAgent

        return AIAgent
    raise AttributeError(f"module 'hermes' has no attribute {name!r}")
