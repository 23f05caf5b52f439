"""`hermes completion`: print the script with which a shell completes commands, options and names. It is
built from the parsers.

`hermes __complete KIND [PREFIX]`: print names for shell completion, one a line, with a description behind a tab.
"""

import sys
from collections.abc import Iterator, Sequence

from hermes.admin.completion_names import list_candidates
from hermes.cli.command_tree import FILE_KIND, ArgumentValue, CommandSpec, list_commands
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters, to_one_line

SHELLS = ("bash", "zsh", "fish")
_INSTALL_LINES = (
    """  bash  echo 'eval "$(hermes completion bash)"' >> ~/.bashrc""",
    """  zsh   echo 'eval "$(hermes completion zsh)"' >> ~/.zshrc""",
    """  fish  hermes completion fish > ~/.config/fish/completions/hermes.fish""",
)
_GLOBAL_OPTIONS = ("-p", "--profile")


def run(arguments: list[str]) -> int:
    """Print the completion script for a shell."""
    parser = CommandParser(
        prog="hermes completion",
        description=tr(
            "Print what a shell needs to complete hermes' commands, options and names. bash: put "
            '`eval "$(hermes completion bash)"` into ~/.bashrc; zsh: the same with zsh into ~/.zshrc, behind compinit; '
            "fish: as in the example."
        ),
        epilog="example: hermes completion fish > ~/.config/fish/completions/hermes.fish",
    )
    parser.add_argument("shell", nargs="?", choices=SHELLS, help=tr("the shell; without one, what to do for each"))
    args = parser.parse_arguments(arguments)
    if args.shell is None:
        print("\n".join([tr("Run the line of your shell once, and open a new one:"), *_INSTALL_LINES]))
        return 0
    print(
        {"bash": build_bash_script, "zsh": build_zsh_script, "fish": build_fish_script}[args.shell](list_commands()),
        end="",
    )
    return 0


def build_bash_script(found: Sequence[CommandSpec]) -> str:
    """Build the script for bash, which needs no other package."""
    return _build_tables(found) + _BASH_SCRIPT


def build_zsh_script(found: Sequence[CommandSpec]) -> str:
    """Build the script for zsh."""
    return f"#compdef hermes\n{_build_tables(found)}{_ZSH_SCRIPT}"


def build_fish_script(found: Sequence[CommandSpec]) -> str:
    """Build the script for fish."""
    lines = [_FISH_SCRIPT]
    for command in found:
        at = f"__hermes_at {' '.join(command.path)}"
        if len(command.path) == 1:
            lines.append(
                _format_fish_line("__hermes_at", f"-f -a {_quote_text(command.path[0])} -d {_quote_text(command.what)}")
            )
        lines += [_format_fish_line(at, f"-f -a {_quote_text(name)}") for name in command.below]
        lines += _format_fish_options(at, command)
        lines += [_format_fish_line(at, _format_fish_value(value, required=False)) for value in command.positional]
    lines += [_format_fish_line(None, "-s p -l profile -x -a '(hermes __complete profile)'")]
    chat = next(command for command in found if command.path == ("chat",))
    lines += _format_fish_options("__hermes_at", chat)
    return "\n".join(lines) + "\n"


def _format_fish_options(at: str, command: CommandSpec) -> Iterator[str]:
    for option in command.options:
        form = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
        value = command.values.get(option)
        yield _format_fish_line(at, form if value is None else f"{form} {_format_fish_value(value, required=True)}")


def _format_fish_line(condition: str | None, rest: str) -> str:
    where = "" if condition is None else f"-n {_quote_text(condition)} "
    return f"complete -c hermes {where}{rest}"


def _format_fish_value(value: ArgumentValue, *, required: bool) -> str:
    if value.kind == FILE_KIND:
        return "-r -F" if required else "-F"
    if value.words:
        return f"-{'x' if required else 'f'} -a {_quote_text(' '.join(value.words))}"
    if value.kind:
        return f"-{'x' if required else 'f'} -a '(hermes __complete {value.kind})'"
    return "-x" if required else "-f"


def _build_tables(found: Sequence[CommandSpec]) -> str:
    """Build two functions that bash and zsh both understand: the words that can stand behind a command, and
    behind an option.
    """
    chat = next(command for command in found if command.path == ("chat",))
    verbs = [command.path[0] for command in found if len(command.path) == 1]
    words = [_format_case("", [*verbs, *chat.options, *_GLOBAL_OPTIONS])]
    words += [
        _format_case(" ".join(command.path), [*command.below, *command.options, *_GLOBAL_OPTIONS]) for command in found
    ]
    kinds = [line for command in found for line in _format_value_kinds(" ".join(command.path), command)]
    kinds += [line for line in _format_value_kinds("", chat) if not line.startswith("  ' ')")]
    kinds += ["  *' -p'|*' --profile') echo @profile ;;"]
    own = [
        f"  {_quote_text(' '.join(command.path))}) echo "
        f"{_quote_text(' '.join(map(_format_value, command.positional)))} ;;"
        for command in found
        if command.positional
    ]
    return "\n".join(
        [
            "_hermes_words() {", "case $1 in", *words, "esac", "}",
            "_hermes_behind() {", "case $1 in", *kinds, "esac", "}",
            "_hermes_own() {", "case $1 in", *own, "esac", "}", "",
        ]
    )  # fmt: skip


def _format_case(path: str, words: Sequence[str]) -> str:
    return f"  {_quote_text(path)}) echo {_quote_text(' '.join(words))} ;;"


def _format_value_kinds(path: str, command: CommandSpec) -> Iterator[str]:
    """Yield a line of the table for each option that takes a value."""
    for option, value in command.values.items():
        yield f"  {_quote_text(f'{path} {option}')}) echo {_quote_text(_format_value(value))} ;;"


def _format_value(value: ArgumentValue) -> str:
    """Format a value for the tables: `@KIND`, or fixed words joined by commas; `@any` for any other text."""
    return ",".join(value.words) if value.words else f"@{value.kind or 'any'}"


def _quote_text(text: str) -> str:
    """Put the text in single quotes, as all three shells take it."""
    return "'" + text.replace("'", "'\\''") + "'"


_WALK_SCRIPT = """\
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

_BASH_SCRIPT = (
    _WALK_SCRIPT
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

_ZSH_SCRIPT = (
    _WALK_SCRIPT
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

_FISH_SCRIPT = """\
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


def run_candidates(arguments: list[str]) -> int:
    """Print the names. Whatever goes wrong, the list is just empty."""
    kind, prefix = (*arguments, "", "")[:2]
    lines = [
        f"{name}\t{escape_unseen_characters(to_one_line(about, 60))}"
        for name, about in list_candidates(copy_environment(), kind, prefix)
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0
