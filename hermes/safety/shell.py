"""A tolerant reader of shell text: which simple commands it holds, with their words, redirects and pipes.

It never fails: what it cannot follow it marks (`Script.whole`, `Word.dynamic`), so that the judge can ask. One pass,
linear in the text but for nesting, which is bounded.
"""

import re
from dataclasses import dataclass, field

MAX_DEPTH = 12
_PLAIN = re.compile(r"[^\s'\"\\$`|&;<>()#{}*?\[\]~=]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_IN_QUOTES = re.compile(r'[^"\\$`]+')
_HEREDOC = re.compile(r"<<(-?)[ \t]*(\\?)(?:'([^'\n]*)'|\"([^\"\n]*)\"|([^\s;|&<>()'\"]+))")
_REDIRECT = re.compile(r"(\d*|&)(>>|>\||>&|<&|<>|<<<|>|<)")
_ANSI_C = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_CLOSING = re.compile(r"[ \t]*\)")
_IN = re.compile(r"\bin\b")
_SKIP = frozenset(
    {"if", "then", "else", "elif", "fi", "while", "until", "do", "done", "!", "{", "}", "time", "coproc", "esac"}
)
_LETTERS = {"n": "\n", "t": "\t", "e": "\x1b", "r": "\r", "a": "\a", "b": "\b"}


@dataclass(slots=True)
class Word:
    """One word with its quotes taken off. `dynamic` when part of it is only known at run time."""

    text: str
    dynamic: bool = False
    quoted: bool = False


@dataclass(slots=True)
class Simple:
    """A simple command. `source` is the command that pipes into it; `inner` are commands in its substitutions."""

    words: list[Word] = field(default_factory=list)
    assigned: list[tuple[str, Word]] = field(default_factory=list)
    redirects: list[tuple[str, Word]] = field(default_factory=list)
    heredoc: str | None = None
    heredoc_expands: bool = False
    source: "Simple | None" = None
    inner: list["Simple"] = field(default_factory=list)


@dataclass(slots=True)
class Script:
    """All simple commands of a text, those of substitutions and subshells included. `whole` is False when lost."""

    commands: list[Simple]
    whole: bool
    functions: frozenset[str]


def read(text: str) -> Script:
    """Read a shell text."""
    reader = _Reader(text)
    reader.block("")
    return Script(commands=reader.commands, whole=reader.whole, functions=frozenset(reader.functions))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.whole = True
        self.commands: list[Simple] = []
        self.functions: set[str] = set()
        self.variables: dict[str, Word] = {}
        self.pending: list[tuple[Simple, str, bool]] = []
        self.cases = 0

    def block(self, until: str) -> list[Simple]:
        """Read commands up to the closing `until` (or the end); they are returned and kept in `commands`."""
        self.depth += 1
        found: list[Simple] = []
        current = Simple()
        closed = not until
        while self.at < len(self.text):
            char = self.text[self.at]
            if until and char == until:
                self.at += 1
                closed = True
                break
            if char in " \t":
                self.at += 1
            elif char == "\\" and self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char in "\n;&|()" or (char == "#"):
                current = self._operator(char, current, found)
            elif char in "<>" or _REDIRECT.match(self.text, self.at):
                self._redirect(current)
            else:
                self._take_word(current)
        self._end(current, found)
        self.whole = self.whole and closed
        self.depth -= 1
        return found

    def _operator(self, char: str, current: Simple, found: list[Simple]) -> Simple:
        """Take a comment, or what ends or groups commands; the command that is read next."""
        text = self.text
        if char == "#":
            end = text.find("\n", self.at)
            self.at = len(text) if end < 0 else end
            return current
        if text.startswith("&>", self.at):
            return self._redirect(current)
        self.at += 1
        if char == "(":
            return self._parenthesis(current, found)
        if char == ")":
            return self._closing(current, found)
        double = text.startswith(char, self.at)
        if (double and char != "\n") or text.startswith("|&", self.at - 1):
            self.at += 1
        self._end(current, found)
        if char == "\n":
            self._heredocs()
        return Simple(source=current if char == "|" and not double else None)

    def _closing(self, current: Simple, found: list[Simple]) -> Simple:
        """A `)` that closes nothing here: the end of a pattern inside `case`, which is data, else a fault."""
        if not self.cases:
            self.whole = False
            self._end(current, found)
        return Simple()

    def _parenthesis(self, current: Simple, found: list[Simple]) -> Simple:
        if self.text.startswith("(", self.at) and not current.words:  # (( arithmetic ))
            end = self.text.find("))", self.at)
            self.at = len(self.text) if end < 0 else end + 2
            self.whole = self.whole and end >= 0
            return current
        closing = _CLOSING.match(self.text, self.at) if len(current.words) == 1 else None
        if closing:  # f() { ...
            self.functions.add(current.words[0].text)
            self.at = closing.end()
            return Simple()
        if current.words:
            current.inner += self._nested(")")  # an array, or a pattern
            return current
        inside = self._nested(")")
        for command in inside:
            command.source = command.source or current.source
        found += inside
        return current

    def _nested(self, until: str) -> list[Simple]:
        if self.depth >= MAX_DEPTH:
            self.whole = False
            self.at = len(self.text)
            return []
        return self.block(until)

    def _end(self, current: Simple, found: list[Simple]) -> None:
        if current.words or current.assigned or current.redirects:
            found.append(current)
            self.commands.append(current)
            if not current.words:
                self.variables.update(current.assigned)

    def _take_word(self, current: Simple) -> None:
        first = not current.words
        assignment = _ASSIGN.match(self.text, self.at) if first else None
        if assignment:
            self._assignment(assignment, current)
            return
        if first and self.text.startswith("[[", self.at):
            self._test(current)
            return
        start = self.at
        word = self._word(current)
        if self.at == start:  # a character that begins nothing
            self.at += 1
            return
        if first and not word.quoted and not word.dynamic:
            if word.text in _SKIP:
                self.cases -= word.text == "esac" and self.cases > 0
                return
            if word.text in ("for", "select", "case", "function"):
                self._header(word.text, current)
                return
        current.words.append(word)

    def _assignment(self, match: re.Match[str], current: Simple) -> None:
        self.at = match.end()
        if self.text.startswith("(", self.at):
            self.at += 1
            current.inner += self._nested(")")
        else:
            current.assigned.append((match[1], self._word(current)))

    def _header(self, keyword: str, current: Simple) -> None:
        """`for x in words`, `case word in`: data up to the `;`, newline or `in`."""
        if keyword == "case":
            self.cases += 1
            end = _IN.search(self.text, self.at)
            self.at = end.end() if end else len(self.text)
            self.whole = self.whole and end is not None
            return
        words: list[Word] = []
        while self.at < len(self.text) and self.text[self.at] not in "\n;({":
            if self.text[self.at] in " \t":
                self.at += 1
                continue
            start = self.at
            words.append(self._word(current))
            self.at += self.at == start
        if keyword == "function" and words:
            self.functions.add(words[0].text)
        elif words:
            self.variables[words[0].text] = Word(" ".join(word.text for word in words[2:]), dynamic=len(words) != 3)

    def _test(self, current: Simple) -> None:
        end = self.text.find("]]", self.at)
        inner = _Reader(
            self.text[self.at + 2 : end if end >= 0 else len(self.text)].replace("&&", " ").replace("||", " ")
        )
        inner.depth = self.depth + 1
        if inner.depth < MAX_DEPTH and ("$(" in inner.text or "`" in inner.text):
            inner.block("")
            self.commands += [command for simple in inner.commands for command in simple.inner]
        self.whole = self.whole and end >= 0
        self.at = len(self.text) if end < 0 else end + 2
        current.words.append(Word("[["))

    def _redirect(self, current: Simple) -> Simple:
        """Take a redirect of the current command, which is given back."""
        heredoc = _HEREDOC.match(self.text, self.at)
        if heredoc and not self.text.startswith("<<<", self.at):
            self.at = heredoc.end()
            end = next(word for word in heredoc.group(3, 4, 5) if word is not None)
            current.heredoc_expands = heredoc[5] is not None and not heredoc[2]
            self.pending.append((current, end, bool(heredoc[1])))
            return current
        if self.text.startswith(("<(", ">("), self.at):
            current.words.append(self._word(current))
            return current
        match = _REDIRECT.match(self.text, self.at)
        if self.text.startswith("&>", self.at):
            operator = ">"
            self.at += 3 if self.text.startswith("&>>", self.at) else 2
        elif match:
            operator = match[2]
            self.at = match.end()
        else:
            self.at += 1
            return current
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        current.redirects.append((operator, self._word(current)))
        return current

    def _heredocs(self) -> None:
        for command, end, tabs in self.pending:
            pattern = re.compile(rf"^{chr(9) + '*' if tabs else ''}{re.escape(end)}$", re.MULTILINE)
            found = pattern.search(self.text, self.at)
            command.heredoc = self.text[self.at : found.start() if found else len(self.text)]
            self.at = min(len(self.text), found.end() + 1) if found else len(self.text)
        self.pending.clear()

    def _word(self, current: Simple) -> Word:
        word = Word("")
        pieces: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            plain = _PLAIN.match(self.text, self.at)
            if plain:
                pieces.append(plain[0])
                self.at = plain.end()
            elif char in "'\"\\$`":
                pieces.append(self._quoted(char, word, current))
            elif char in "<>" and not pieces and self.text.startswith("(", self.at + 1):
                self.at += 2
                current.inner += self._nested(")")
                word.dynamic = True
                pieces.append(f"{char}()")
            elif char in "{}*?[]~=#":
                word.dynamic = word.dynamic or (char in "{*?" and not (char == "{" and self._is_plain_brace()))
                pieces.append(char)
                self.at += 1
            else:
                break
        word.text = "".join(pieces)
        return word

    def _is_plain_brace(self) -> bool:
        """Whether `{` here only stands for itself (`{}` of find, a lone brace)."""
        return self.text.startswith("{}", self.at) or self.text[self.at + 1 : self.at + 2] in ("", " ", "\n", "\t")

    def _quoted(self, char: str, word: Word, current: Simple) -> str:
        text = self.text
        if char == "\\":
            piece = text[self.at + 1 : self.at + 2]
            self.at += 2
            return "" if piece == "\n" else piece
        if char == "'":
            word.quoted = True
            end = text.find("'", self.at + 1)
            self.whole = self.whole and end >= 0
            piece = text[self.at + 1 : end if end >= 0 else len(text)]
            self.at = end + 1 if end >= 0 else len(text)
            return piece
        if char == '"':
            word.quoted = True
            return self._double(word, current)
        return self._dollar(word, current)

    def _double(self, word: Word, current: Simple) -> str:
        self.at += 1
        pieces: list[str] = []
        while self.at < len(self.text):
            plain = _IN_QUOTES.match(self.text, self.at)
            if plain:
                pieces.append(plain[0])
                self.at = plain.end()
                continue
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return "".join(pieces)
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                pieces.append(following if following in '"\\$`' else "" if following == "\n" else "\\" + following)
                self.at += 2
            else:
                pieces.append(self._dollar(word, current))
        self.whole = False
        return "".join(pieces)

    def _dollar(self, word: Word, current: Simple) -> str:
        """`$...` and backticks."""
        text = self.text
        if text[self.at] == "`":
            end = text.find("`", self.at + 1)
            inner = _Reader(text[self.at + 1 : end if end >= 0 else len(text)].replace("\\`", "`"))
            self.whole = self.whole and end >= 0
            self.at = end + 1 if end >= 0 else len(text)
            self._adopt(inner, current)
            word.dynamic = True
            return "$()"
        following = text[self.at + 1 : self.at + 2]
        if following == "(":
            self.at += 2
            word.dynamic = True
            if text.startswith("(", self.at):
                end = text.find("))", self.at)
                if end >= 0 and "$(" not in text[self.at : end]:
                    self.at = end + 2
                    return "0"
            current.inner += self._nested(")")
            return "$()"
        if following == "'":
            return self._ansi_c(word)
        if following == '"':
            self.at += 1
            return self._double(word, current)
        return self._variable(word, following)

    def _adopt(self, inner: "_Reader", current: Simple) -> None:
        inner.depth = self.depth + 1
        inner.variables = self.variables
        if inner.depth >= MAX_DEPTH:
            self.whole = False
            return
        current.inner += inner.block("")
        self.commands += inner.commands
        self.functions |= inner.functions
        self.whole = self.whole and inner.whole

    def _ansi_c(self, word: Word) -> str:
        word.quoted = True
        end = self.at + 2
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        piece = self.text[self.at + 2 : end]
        self.whole = self.whole and end < len(self.text)
        self.at = end + 1
        return _ANSI_C.sub(_ansi_c_escape, piece)

    def _variable(self, word: Word, following: str) -> str:
        if following == "{":
            end = self.text.find("}", self.at)
            name = self.text[self.at + 2 : end if end >= 0 else len(self.text)]
            self.whole = self.whole and end >= 0
            self.at = end + 1 if end >= 0 else len(self.text)
        else:
            match = _NAME.match(self.text, self.at + 1)
            name = match[0] if match else following if following and following in "@*#?$!-0123456789" else ""
            self.at += 1 + len(name)
            if not name:
                return "$"
        known = self.variables.get(name)
        if known is not None:
            word.dynamic = word.dynamic or known.dynamic
            return known.text
        if name != "HOME":
            word.dynamic = True
        return f"${{{name}}}"


def _ansi_c_escape(match: re.Match[str]) -> str:
    hexadecimal, unicode, octal, letter = match.groups()
    if hexadecimal or unicode:
        return chr(int(hexadecimal or unicode, 16))
    return chr(int(octal, 8)) if octal else _LETTERS.get(letter, letter)
