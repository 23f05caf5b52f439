"""Reads the addresses of git's repositories."""

from urllib.parse import unquote


def find_local_path(address: str) -> str:
    """Return the path on this machine that a repository's address stands for; empty when it is another host's."""
    if address.startswith("file://"):
        return "/" + unquote(address.removeprefix("file://"), errors="surrogateescape").lstrip("/")
    return address if ":" not in address.partition("/")[0] else ""
