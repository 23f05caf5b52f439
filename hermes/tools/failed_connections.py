"""Tells from a failed command's own output whether it reached no host at all."""

import re

_SHELL = re.compile(r"[|&;<>$`(){}\[\]*?\\\n]")
_PLAIN_OPTION = re.compile(r"-[sSfgk46#]+|--silent|--show-error|--fail|-m|--max-time|--connect-timeout|\d+")
_CURL_CODES = (5, 6, 7)
"""curl's exit codes where there was no connection (its manual, EXIT CODES)."""
_NO_HOST = r"Could not resolve host|Failed to connect to|Couldn't connect to server|Name or service not known"
_NO_CONNECTION_OUTPUT = {
    "wget": (
        r"(failed|unable to resolve host address)\b",
        (
            r"(--[\d: -]+--  \S+|Resolving \S+ \(\S+\)\.\.\. .*|Connecting to \S+\.\.\. failed: Connection refused\."
            r"|Connecting to \S+ \(\S+\)\|[\d.:a-f]+\|:\d+\.\.\. failed: Connection refused\."
            r"|Retrying\.|\s*|wget: unable to resolve host address [‘'][^‘’']*[’'])"
        ),
    ),
    "git": (
        rf"^fatal: unable to access '[^']+': ({_NO_HOST})|^ssh: (Could not resolve hostname|connect to host)",
        (
            rf"(Cloning into '[^']*'\.\.\.|fatal: unable to access '[^']+': ({_NO_HOST})[^<>]*|\s*"
            r"|ssh: (Could not resolve hostname|connect to host) .*|fatal: Could not read from remote repository\."
            r"|Please make sure you have the correct access rights|and the repository exists\.)"
        ),
    ),
    "pip": (
        r"NewConnectionError|NameResolutionError",
        (
            r"(WARNING: Retrying \(Retry\(total=\d.*(NewConnectionError|NameResolutionError)\(.*"
            r"|ERROR: Could not find a version that satisfies the requirement \S+ \(from versions: none\)"
            r"|ERROR: No matching distribution found for \S+|Defaulting to user installation .*|\s*)"
        ),
    ),
}
"""For each program its output when no host was reached, and all that it may print besides."""
_EXIT_CODES = {"wget": (4,), "git": (1, 128), "pip": (1,)}
_MAX_CHARACTERS = 20_000


def _has_one_host(words: list[str]) -> bool:
    hosts = [word for word in words[1:] if not _PLAIN_OPTION.fullmatch(word)]
    return len(hosts) == 1 and not hosts[0].startswith("-")


def has_reached_nobody(command: str, code: int, output: str) -> bool:
    """Return whether one plain command is known to have had no connection at all. `output` is all of its output.

    Output that says more than that it could not connect may hold untrusted content: an error page does, too.
    """
    words = command.split()
    if not words or len(output) > _MAX_CHARACTERS:
        return False
    name = words[0].removesuffix("3")
    if _SHELL.search(command):
        return False
    if name == "curl":
        return code in _CURL_CODES and _has_one_host(words)
    if code not in _EXIT_CODES.get(name, ()):
        return False
    says, besides = _NO_CONNECTION_OUTPUT[name]
    lines = output.splitlines()
    return re.search(says, output, re.MULTILINE) is not None and all(re.fullmatch(besides, one) for one in lines)
