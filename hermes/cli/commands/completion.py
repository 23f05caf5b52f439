"""`hermes completion`: what a shell needs to complete commands, options and names. Made from the parsers themselves."""

from collections.abc import Iterator, Sequence

from hermes.cli.arguments import Parser
from hermes.cli.command_tree import FILE, Place, Value, places
from hermes.i18n.messages import say

SHELLS = ("bash", "zsh", "fish")
_EVERYWHERE = ("-p", "--profile")


def run(arguments: list[str]) -> int:
    """Print the script for a shell."""
    parser = Parser(
        prog="hermes completion",
        description=say(
            "Print what a shell needs to complete hermes' commands, options and names. bash: put "
            '`eval "$(hermes completion bash)"` into ~/.bashrc; zsh: the same with zsh into ~/.zshrc, behind compinit; '
            "fish: as in the example."
        ),
        epilog="example: hermes completion fish > ~/.config/fish/completions/hermes.fish",
    )
    parser.add_argument("shell", choices=SHELLS, help=say("the shell"))
    given = parser.read(arguments)
    print({"bash": bash, "zsh": zsh, "fish": fish}[given.shell](places()), end="")
    return 0


def bash(found: Sequence[Place]) -> str:
    """The script for bash, which needs no other package."""
    return _tables(found) + _BASH


def zsh(found: Sequence[Place]) -> str:
    """The script for zsh."""
    return f"#compdef hermes\n{_tables(found)}{_ZSH}"


def fish(found: Sequence[Place]) -> str:
    """The script for fish."""
    lines = [_FISH]
    for place in found:
        at = f"__hermes_at {' '.join(place.path)}"
        if len(place.path) == 1:
            lines.append(_fish("__hermes_at", f"-f -a {_quoted(place.path[0])} -d {_quoted(place.what)}"))
        lines += [_fish(at, f"-f -a {_quoted(name)}") for name in place.below]
        lines += _fish_options(at, place)
        lines += [_fish(at, _fish_value(value, required=False)) for value in place.positional]
    lines += [_fish(None, "-s p -l profile -x -a '(hermes __complete profile)'")]
    chat = next(place for place in found if place.path == ("chat",))
    lines += _fish_options("__hermes_at", chat)
    return "\n".join(lines) + "\n"


def _fish_options(at: str, place: Place) -> Iterator[str]:
    for option in place.options:
        form = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
        value = place.values.get(option)
        yield _fish(at, form if value is None else f"{form} {_fish_value(value, required=True)}")


def _fish(condition: str | None, rest: str) -> str:
    where = "" if condition is None else f"-n {_quoted(condition)} "
    return f"complete -c hermes {where}{rest}"


def _fish_value(value: Value, *, required: bool) -> str:
    if value.kind == FILE:
        return "-r -F" if required else "-F"
    if value.words:
        return f"-{'x' if required else 'f'} -a {_quoted(' '.join(value.words))}"
    if value.kind:
        return f"-{'x' if required else 'f'} -a '(hermes __complete {value.kind})'"
    return "-x" if required else "-f"


def _tables(found: Sequence[Place]) -> str:
    """Two functions that bash and zsh both understand: what can stand at a place, and what behind an option."""
    chat = next(place for place in found if place.path == ("chat",))
    verbs = [place.path[0] for place in found if len(place.path) == 1]
    words = [_case("", [*verbs, *chat.options, *_EVERYWHERE])]
    words += [_case(" ".join(place.path), [*place.below, *place.options, *_EVERYWHERE]) for place in found]
    kinds = [line for place in found for line in _kinds(" ".join(place.path), place)]
    kinds += [line for line in _kinds("", chat) if not line.startswith("  ' ')")]
    kinds += ["  *' -p'|*' --profile') echo @profile ;;"]
    own = [
        f"  {_quoted(' '.join(place.path))}) echo {_quoted(' '.join(map(_named, place.positional)))} ;;"
        for place in found
        if place.positional
    ]
    return "\n".join(
        [
            "_hermes_words() {", "case $1 in", *words, "esac", "}",
            "_hermes_behind() {", "case $1 in", *kinds, "esac", "}",
            "_hermes_own() {", "case $1 in", *own, "esac", "}", "",
        ]
    )  # fmt: skip


def _case(path: str, words: Sequence[str]) -> str:
    return f"  {_quoted(path)}) echo {_quoted(' '.join(words))} ;;"


def _kinds(path: str, place: Place) -> Iterator[str]:
    """For each option that takes a value, a line of the table."""
    for option, value in place.values.items():
        yield f"  {_quoted(f'{path} {option}')}) echo {_quoted(_named(value))} ;;"


def _named(value: Value) -> str:
    """A value in the tables: `@KIND`, or fixed words joined by commas; `@any` for what nobody knows."""
    return ",".join(value.words) if value.words else f"@{value.kind or 'any'}"


def _quoted(text: str) -> str:
    """The text in single quotes, as all three shells take it."""
    return "'" + text.replace("'", "'\\''") + "'"


_WALK = """\
# Which verbs stand before the word under the cursor, and how many words of their own behind them.
_hermes_walk() {
  _hermes_path='' _hermes_count=0
  local skip='' word
  for word in "$@"; do
    if [ -n "$skip" ]; then skip=''; continue; fi
    case $word in
      -*=*) continue ;;
      -*) [ -n "$(_hermes_behind "$_hermes_path $word")" ] && skip=1; continue ;;
    esac
    case " $(_hermes_words "$_hermes_path") " in
      *" $word "*) _hermes_path="${_hermes_path:+$_hermes_path }$word" ;;
      *) _hermes_count=$((_hermes_count + 1)) ;;
    esac
  done
}
"""

_BASH = (
    _WALK
    + """\
_hermes() {
  local cur=${COMP_WORDS[COMP_CWORD]} before kind line value own
  _hermes_walk "${COMP_WORDS[@]:1:COMP_CWORD-1}"
  before=${COMP_WORDS[COMP_CWORD-1]}
  COMPREPLY=()
  kind=''
  case $before in -*) kind=$(_hermes_behind "$_hermes_path $before") ;; esac
  if [ -z "$kind" ]; then
    case $cur in
      -*) ;;
      *)
        own=($(_hermes_own "$_hermes_path"))
        [ ${#own[@]} -gt 0 ] && kind=${own[_hermes_count]:-${own[${#own[@]}-1]}} ;;
    esac
    case $kind in
      '') COMPREPLY=($(compgen -W "$(_hermes_words "$_hermes_path")" -- "$cur")); return ;;
    esac
    [ -z "$cur" ] && COMPREPLY=($(compgen -W "$(_hermes_words "$_hermes_path")" -- "$cur"))
  fi
  case $kind in
    @any) ;;
    @file) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")) ;;
    @*)
      while IFS=$'\\t' read -r value line; do
        [ -n "$value" ] && COMPREPLY+=("$(printf %q "$value")")
      done < <("${COMP_WORDS[0]}" __complete "${kind#@}" "$cur" 2>/dev/null) ;;
    *) COMPREPLY+=($(compgen -W "${kind//,/ }" -- "$cur")) ;;
  esac
}
complete -o default -F _hermes hermes
"""
)

_ZSH = (
    _WALK
    + """\
_hermes() {
  emulate -L zsh
  local cur=${words[CURRENT]} before=${words[CURRENT-1]} kind='' value about
  local -a own names shown
  _hermes_walk "${(@)words[2,CURRENT-1]}"
  [[ $before == -* ]] && kind=$(_hermes_behind "$_hermes_path $before")
  if [[ -z $kind ]]; then
    [[ $cur == -* ]] || { own=(${=$(_hermes_own "$_hermes_path")}); kind=${own[_hermes_count+1]:-${own[-1]}} }
    compadd -- ${=$(_hermes_words "$_hermes_path")}
  fi
  case $kind in
    ''|@any) ;;
    @file) _files ;;
    @*)
      while IFS=$'\\t' read -r value about; do
        names+=("$value") shown+=("$value  $about")
      done < <(${words[1]} __complete ${kind#@} "$cur" 2>/dev/null)
      compadd -l -d shown -a names ;;
    *) compadd -- ${(s:,:)kind} ;;
  esac
}
if [ "$funcstack[1]" = _hermes ]; then _hermes "$@"; else compdef _hermes hermes; fi
"""
)

_FISH = """\
# Whether exactly these verbs stand before the word under the cursor.
function __hermes_at
  set -l path
  set -l skip 0
  for word in (commandline -opc)[2..-1]
    if test $skip = 1
      set skip 0
    else if contains -- $word -p --profile -m --model --provider -r --resume
      set skip 1
    else if not string match -q -- '-*' $word
      set -a path $word
    end
  end
  set -l wanted (count $argv)
  test (count $path) -ge $wanted; or return 1
  if test $wanted = 0
    test (count $path) = 0
    return
  end
  test "$path[1..$wanted]" = "$argv"
end
complete -c hermes -f"""
