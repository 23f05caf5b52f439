"""Why a file cannot be read, in words: each the end of a sentence."""

from hermes.core.errors import ToolError
from hermes.i18n.messages import N_
from hermes.media.extras import EXTRAS
from hermes.util.text import strip_control_characters, to_one_line

_LONGEST = 200
MEMORY_LIMIT = 150 << 20
"""Bytes of memory that a reader may hold, its libraries among them."""


class NoReaderError(ToolError):
    """Nothing here can read such a file, whatever is in it: a library or the sandbox is missing."""


class DamagedFileError(ToolError):
    """A file is broken, or not what it says."""


def make_failure(code: str, detail: str) -> ToolError:
    """Return the error for what the reader has named; `detail` is of its own making."""
    said = to_one_line(strip_control_characters(detail), _LONGEST)
    match code:
        case "missing":
            command = make_install_line(said if said in EXTRAS else "all")
            return NoReaderError(N_("the extra `{extra}` is missing: {command}", extra=said, command=command))
        case "encrypted":
            return ToolError(N_("it is encrypted; a copy that is saved without a password can be read"))
        case "too_large":
            return ToolError(N_("it unpacks to more than {size}", size=said))
        case "memory":
            return ToolError(N_("it needs more than {size} MB", size=MEMORY_LIMIT >> 20))
        case "unsupported":
            words = N_("it is {what}", what=said) if said else N_("it is of a kind that nothing here reads")
            return DamagedFileError(words)
        case "range":
            return ToolError(N_("it has no such pages, only {count}", count=said))
    return DamagedFileError(N_("it is damaged: {detail}", detail=said or code))


def make_install_line(extra: str) -> str:
    """Return the command that brings an extra."""
    return f"pip install 'hermes-anew[{extra}]'"
