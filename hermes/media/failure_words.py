"""Why a file cannot be read, in words: each the end of a sentence."""

from hermes.i18n.messages import N_
from hermes.media.extras import EXTRAS
from hermes.util.text import strip_control_characters, to_one_line

_LONGEST = 200


def describe_failure(code: str, detail: str) -> str:
    """Return the words for what the reader has named; `detail` is of its own making."""
    said = to_one_line(strip_control_characters(detail), _LONGEST)
    match code:
        case "encrypted":
            return N_("it is encrypted")
        case "too_large":
            return N_("it unpacks to more than {size}", size=said)
        case "memory":
            return N_("it needs more than 150 MB")
        case "missing" if said in EXTRAS:
            return N_("the extra `{extra}` is missing: {command}", extra=said, command=make_install_line(said))
        case "unsupported":
            return N_("it is {what}", what=said) if said else N_("it is of a kind that nothing here reads")
        case "range":
            return N_("it has no such pages: {count}", count=said)
    return N_("it is damaged: {detail}", detail=said) if said else N_("it is damaged")


def make_install_line(extra: str) -> str:
    """Return the command that brings an extra."""
    return f"pip install 'hermes-anew[{extra}]'"
