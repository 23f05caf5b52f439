"""What code finds in the interpreter before it begins: the functions by which it calls tools. This text runs there, in
the interpreter's own subset of Python, which has no classes that inherit: two of its errors stand for ours.
"""

import builtins
import keyword
import re

_PRELUDE = """
import json as __hermes_json__

ToolError = OSError
OutcomeUnknown = NotADirectoryError

def __hermes_ask__(calls):
    return __hermes_json__.loads(__hermes_call__(__hermes_json__.dumps(calls)))

def __hermes_settle__(answer):
    if answer[0] == "ok":
        return answer[1]
    if answer[0] == "unknown":
        raise OutcomeUnknown(answer[1])
    raise ToolError(answer[1])

def __hermes_show__(value):
    if value is not None:
        print(value if isinstance(value, str) else repr(value))

def tool(name, arguments=None, **named):
    given = dict(arguments or {})
    given.update(named)
    return __hermes_settle__(__hermes_ask__([[name, given]])[0])

def at_once(calls):
    found = []
    for answer in __hermes_ask__([[one[0], one[1]] for one in calls]):
        if answer[0] == "ok":
            found.append(answer[1])
        elif answer[0] == "unknown":
            found.append(OutcomeUnknown(answer[1]))
        else:
            found.append(ToolError(answer[1]))
    return found
"""
CALL_FUNCTION = "__hermes_call__"
SHOW_FUNCTION = "__hermes_show__"
ERROR_NAMES = {"OSError": "ToolError", "NotADirectoryError": "OutcomeUnknown"}
"""How the errors are called where a person or a model reads them."""
_TAKEN = frozenset({*dir(builtins), "tool", "at_once", "ToolError", "OutcomeUnknown"})
"""Names that mean something to code already, whatever a tool is called."""


def list_functions(code: str, tools: list[str]) -> list[str]:
    """Return the tools that are functions in this code: those whose names are Python's, and which it mentions."""
    words = set(re.findall(r"\w+", code))
    named = (one for one in tools if one in words and one.isidentifier() and not one.startswith("__"))
    return [one for one in named if one not in _TAKEN and not keyword.iskeyword(one)]


def build_prelude(functions: list[str]) -> str:
    """Return the prelude with these tools as functions."""
    stubs = (f"\ndef {name}(**named):\n    return tool({name!r}, named)\n" for name in functions)
    return _PRELUDE + "".join(stubs)
