"""The session that makes calls through the real executor serves these tests."""

from tests.tools.tool_session import session

__all__ = ["session"]
