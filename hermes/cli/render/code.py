"""Color code line by line: comments, strings, numbers, words of the language.

Lines are given out as they come, so a line is read once, and all that is known of the lines before it is
what they left open (a comment, a string of several lines).
"""

import re
from functools import lru_cache

from msgspec import Struct

from hermes.markup.inline import Run

MAX_LINE_LENGTH = 1_000
"""Characters of a line beyond which it is shown without colors."""

_C = "break case catch class const continue default do else enum extends false finally for if import in interface new \
null private protected public return static struct super switch this throw true try type typedef union void while"
_WORDS = {
    "python": "and as assert async await break case class continue def del elif else except False finally for from \
global if import in is lambda match None nonlocal not or pass raise return True try while with yield self",
    "script": _C
    + " abstract as async await debugger declare delete export from function get implements instanceof \
let namespace of readonly set typeof undefined var with yield keyof satisfies",
    "c": _C
    + " alignas auto bool char concept constexpr delete double explicit extern final float friend goto inline \
int internal is long namespace nullptr operator out override package params readonly record ref register sealed short \
signed sizeof string template throws typename unsigned using var virtual volatile where let fun val when object func \
guard protocol extension let nil self lazy weak init companion data suspend def trait implicit lateinit by",
    "go": "break case chan const continue default defer else fallthrough for func go goto if import interface map nil \
package range return select struct switch type var true false error string int bool byte any",
    "rust": "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod \
move mut pub ref return self Self static struct super trait true type unsafe use where while Some None Ok Err",
    "shell": "if then else elif fi for in do done while until case esac function select time return exit export local \
readonly declare set unset source alias eval exec cd echo sudo trap shift break continue true false",
    "ruby": "alias and begin break case class def defined? do else elsif end ensure false for if in module next nil \
not or redo require rescue retry return self super then true undef unless until when while yield attr_accessor local \
function elseif repeat",
    "sql": "add all alter and as asc begin between by case check column commit constraint create cross database \
default delete desc distinct drop else end exists foreign from full group having if in index inner insert \
into is join key left like limit not null offset on or order outer primary references returning right \
rollback select set table then transaction union unique update using values view when where with",
    "data": "true false null yes no on off none nan inf",
    "docker": "FROM RUN CMD LABEL EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG ONBUILD HEALTHCHECK SHELL AS",
}
_FAMILIES = {
    "python": "python py python3 pyi py3 ipython starlark",
    "script": "javascript js jsx mjs typescript ts tsx json5 vue svelte",
    "c": "c h cpp c++ cc cxx hpp java cs csharp c# kotlin kt swift scala dart php objc objective-c groovy glsl proto \
protobuf zig solidity",
    "go": "go golang",
    "rust": "rust rs",
    "shell": "sh bash zsh shell fish ksh console shell-session terminal powershell ps1 make makefile",
    "ruby": "ruby rb lua elixir ex perl pl r julia jl crystal",
    "sql": "sql mysql postgres postgresql sqlite plsql tsql",
    "data": "json jsonc yaml yml toml ini cfg conf env dotenv properties hcl terraform tf nginx",
    "docker": "dockerfile docker containerfile",
    "markup": "html xml svg xhtml",
    "style": "css scss less sass",
    "diff": "diff patch",
}
_STRING = r'"(?:[^"\\]|\\.)*"?|\'(?:[^\'\\]|\\.)*\'?'
_HASH, _SLASHES, _DASHES, _NEVER = r"(?<!\S)\#.*", r"//.*", r"--.*", r"(?!)"
_NUMBER = r"\b(?:0[xXbBoO][0-9a-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\w*\b"
_COMMENTS = {
    **dict.fromkeys(("shell", "ruby", "data", "docker"), _HASH),
    "python": r"\#.*",
    "sql": _DASHES,
    "markup": _NEVER,
}
_MULTILINE_ENDS = {
    **{family: {"/*": "*/"} for family in ("sql", "c", "rust", "style")},
    **{family: {"/*": "*/", "`": "`"} for family in ("script", "go")},
    "python": {'"""': '"""', "'''": "'''"},
    "markup": {"<!--": "-->"},
}
"""The marks that open text of several lines, and those that end it."""
_NAME = r"[A-Za-z_]\w*"
_NAMES = {"markup": r"</?[\w:-]+|/?>", "ruby": r"[A-Za-z_$@][\w$]*[?!]?"}
_STRINGS = {"markup": r'"[^"]*"?', "rust": r'"(?:[^"\\]|\\.)*"?|\'(?:[^\'\\]|\\.)\''}


class HighlightLanguage(Struct, frozen=True):
    """The patterns and words by which lines of a language are read."""

    token: re.Pattern[str]
    words: frozenset[str]
    ends: dict[str, str]
    """The marks that open text of several lines, and those that end it."""
    ignore_case: bool = False


@lru_cache(maxsize=64)
def find_language(label: str) -> HighlightLanguage | None:
    """Return the language of that name; None when it is not known."""
    name = label.lower()
    family = next((one for one, names in _FAMILIES.items() if name in names.split()), "")
    if not family:
        return None
    comment = {"lua": _DASHES, "css": _NEVER}.get(name) or _COMMENTS.get(family, _SLASHES)
    ends = _MULTILINE_ENDS.get(family, {})
    multi = "|".join(re.escape(one) for one in ends) or _NEVER
    token = re.compile(
        f"(?P<multi>{multi})|(?P<comment>{comment})|(?P<string>{_STRINGS.get(family, _STRING)})"
        f"|(?P<number>{_NUMBER})|(?P<name>{_NAMES.get(family, _NAME)})"
    )
    words = frozenset(_WORDS.get(family, "").split())
    return HighlightLanguage(token, words, ends, ignore_case=family in ("sql", "data"))


class CodeHighlighter:
    """Highlights the lines of one block of code, one after the other."""

    def __init__(self, label: str) -> None:
        self._language = find_language(label)
        self._diff = label.lower() in ("diff", "patch")
        self._open = ""
        """The mark that ends the comment or string that goes on from the line before."""
        self._style = ""

    def highlight_line(self, line: str) -> list[Run]:
        """Return the line in runs of one style each."""
        if self._diff:
            return [(line, _choose_diff_style(line))]
        language = self._language
        if language is None or len(line) > MAX_LINE_LENGTH:
            return [(line, "code.block")]
        found: list[Run] = []
        at = 0
        if self._open:
            end = line.find(self._open)
            if end < 0:
                return [(line, self._style)]
            at = end + len(self._open)
            found.append((line[:at], self._style))
            self._open = ""
        self._add_runs(language, line, at, found)
        return found

    def _add_runs(self, language: HighlightLanguage, line: str, at: int, found: list[Run]) -> None:
        done = at
        while match := language.token.search(line, at):
            begin, at = match.span()
            kind = match.lastgroup
            if kind == "name":
                style = _choose_name_style(language, match[0], line[at : at + 1])
            elif kind == "multi":
                style, at = self._open_span(language, line, match)
            else:
                style = f"code.{kind}"
            if style:
                if begin > done:
                    found.append((line[done:begin], "code.block"))
                found.append((line[begin:at], style))
                done = at
        if done < len(line):
            found.append((line[done:], "code.block"))

    def _open_span(self, language: HighlightLanguage, line: str, match: re.Match[str]) -> tuple[str, int]:
        """Return the style of a span that may go on over several lines, and where it ends in this line."""
        ending = language.ends[match[0]]
        style = "code.comment" if match[0] in ("/*", "<!--") else "code.string"
        end = line.find(ending, match.end())
        if end >= 0:
            return style, end + len(ending)
        self._open, self._style = ending, style
        return style, len(line)


def _choose_name_style(language: HighlightLanguage, name: str, following: str) -> str:
    word = name.lower() if language.ignore_case else name
    if word in language.words or word[0] in "</":
        return "code.keyword"
    return "code.name" if following == "(" else ""


def _choose_diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return "diff.file"
    return {"+": "diff.add", "-": "diff.remove", "@": "diff.hunk"}.get(line[:1], "code.block")
