"""JSON that people write by hand, made strict: comments, trailing commas, names without quotes."""

import re

_STRING = r'"(?:\\.|[^"\\])*"'
_LOOSE = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/|,(?=\s*[}}\]])|([{{,]\s*)([A-Za-z_$][\w$]*)(?=\s*:)", re.DOTALL)


def to_strict_json(text: str) -> str:
    """Return a text in JSON5 as JSON; what is wrong with it stays wrong."""

    def fix_match(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        return f'{match[2]}"{match[3]}"' if match[3] else ""

    return _LOOSE.sub(fix_match, _LOOSE.sub(fix_match, text))
