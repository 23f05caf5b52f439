"""The shell scripts of ours that run on the remote side of a connection, sent with each command.

They need a POSIX shell, /proc as on Linux, awk, grep, sort, base64, tr and env; bash runs commands where there is one.
What they report stands between a command's own output as records: `\\x1e`, the run's mark, `:`, a letter, data,
`\\x1f`. The mark is random, so no output is taken for a record by chance. A command that looks for its mark can forge
what is reported of itself, as it can anywhere: its exit code, its folder, its variables.

Letters: `R` the script may be sent (on a terminal only), `B` the environment before anything was laid over it (base64),
`P` it runs (process id, and that of the script above it), `F` its folder cannot be entered, `S` the state that its
shell left (base64), `X` it has ended (code, number of processes left), `G` nothing is left of it, `L` something is.
"""

import re
import shlex
from base64 import b64encode
from collections.abc import Mapping

from hermes.execution.base import ShellCommand

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_FIND_FUNCTIONS = r"""
say() { printf '\036%s:%s\037' "$mark" "$1"; }
found() {
  { grep -lszF "HERMES_RUN=$1" /proc/[0-9]*/environ; cat /proc/[0-9]*/stat; } 2>/dev/null |
  awk -v top="$2" -v boot="$3" '
    /^\/proc/ { gsub(/[^0-9]/, ""); hit[$0] = 1; next }
    { pid = $1; sub(/^.*\) /, ""); if ($1 == "Z" || $1 == "X") next
      up[pid] = $2
      if (pid == top || $3 == top || $4 == top || ($4 == boot && $3 != boot)) hit[pid] = 1 }
    END { do { more = 0; for (p in up) if (!(p in hit) && (up[p] in hit)) { hit[p] = 1; more = 1 } } while (more)
      for (p in hit) if (p in up) print p }' | sort -n
}
"""
"""Shell functions. `found MARK TOP SCRIPT` lists the live processes of a run: those with its mark in the environment
they began with; the group and session of its shell `TOP`; the other groups in the session of the script above it; and
all descendants of those. -1 stands for no process. The oldest come first: a shell whose child is killed before itself
would go on, and might end well. Fields: proc(5), /proc/pid/stat.
"""

_END_BODY = r"""
now() { read -r time rest </proc/uptime; time=${time%.*}${time#*.}; }
gone() { pids=$(found "$mark" "$top" "$boot"); [ -z "$pids" ] && { say G; exit 0; }; }
trap '' HUP
for step in $steps; do
  gone; kill -"${step%:*}" $pids 2>/dev/null
  now; end=$((time + ${step#*:}))
  while gone; now; [ "$time" -lt "$end" ]; do
    [ "${step%:*}" = KILL ] && kill -KILL $pids 2>/dev/null
    sleep 0.03
  done
done
say L
"""

_STANDBY_BODY = r"""
trap '' HUP INT TERM QUIT
say H
while IFS= read -r line; do [ "$line" = bye ] && exit 0; done
tries=0
while [ "$tries" -lt 100 ]; do
  pids=$(found "$session" -1 -1)
  [ -z "$pids" ] && exit 0
  kill -KILL $pids 2>/dev/null
  sleep 0.05; tries=$((tries + 1))
done
"""

_RUN_ON_TERMINAL = "( body ); code=$?"
_RUN_IN_GROUP = rf"""
if [ -n "$BASH_VERSION" ]; then
  set -m; body & child=$!
  while wait "$child"; code=$?; [ "$code" -gt 128 ] && kill -0 "$child"; do sleep 0.1; done
  set +m
else {_RUN_ON_TERMINAL}; fi
"""
"""Runs the command in a group of its own, where the shell can do that. Not in its foreground: bash would give up the
script when the command dies of an INT. A wait that is over too early, by a signal or a stopped command, is repeated.
"""

_REPORT_EXIT = r"""
left() { found "$mark" -1 "$$" | wc -l | tr -dc 0-9; }
count=$(left)
[ "$count" = 0 ] || { sleep 0.1; count=$(left); }
say "X$code $count"
"""


def build_run_script(
    command: ShellCommand, cwd: str, mark: str, *, environment: Mapping[str, str], report_base: bool
) -> str:
    """Build the script that runs a command and reports its process id, how it ended and
    the state that its shell left.
    """
    lines = [f"mark={mark}", "trap : INT TERM HUP QUIT", _FIND_FUNCTIONS, "shell=${BASH:-sh}"]
    note = f"/tmp/hermes-{mark}"  # noqa: S108 - nobody can know the name before
    if report_base:
        lines.append(r"""printf '\036%s:B' "$mark"; env -0 | base64 | tr -d '\n'; printf '\037'""")
    text = command.text
    if command.report_state:
        lines.append(f"(umask 077; : >{note})")
        report = f'{{ pwd; printf "\\0"; env -0; }} >{note} 2>/dev/null'
        text = f"trap '{report}' EXIT; {text}"
    run = f"""printf '\\036{mark}:P%s %s\\037' "$$" "$PPID"; exec "$0" -c "$1" """
    variables = {name: value for name, value in environment.items() if _VARIABLE_NAME.fullmatch(name)}
    unset_names = [name for name in command.unset if _VARIABLE_NAME.fullmatch(name)]
    lines += [
        "exec 2>/dev/null",
        f"body() {{ cd -- {shlex.quote(cwd)} || {{ say F; exit 125; }}",
        *(f"unset -v {name}" for name in unset_names),
        *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
        f'export HERMES_RUN={mark}; exec 2>&1 "$shell" -c {shlex.quote(run)} "$shell" {shlex.quote(text)}; }}',
        # On a terminal the foreground group is that of this script: another one could not read from it.
        _RUN_ON_TERMINAL if command.pty else _RUN_IN_GROUP,
    ]
    if command.report_state:
        report_state = rf"""printf '\036%s:S' "$mark"; base64 <{note} | tr -d '\n'; printf '\037'"""
        lines.append(f"[ ! -s {note} ] || {{ {report_state}; }}; rm -f {note}")
    return "\n".join([*lines, _REPORT_EXIT])


def build_end_script(mark: str, shell_pid: int, script_pid: int, *, at_once: bool) -> str:
    """Build the script that ends a run: INT, TERM after 1.5 s, KILL after 3 s; or KILL alone."""
    steps = "KILL:100" if at_once else "INT:150 TERM:150 KILL:60"
    return f"mark={mark}; top={shell_pid}; boot={script_pid}; steps='{steps}'\n{_FIND_FUNCTIONS}{_END_BODY}"


def build_standby_script(session: str) -> str:
    """Build the script that stands by while the connection holds, and ends the session's runs when it breaks."""
    return f"session={session}. mark={session}\n{_FIND_FUNCTIONS}{_STANDBY_BODY}"


def frame_script(script: str, mark: str) -> str:
    """Frame a script of ours so that what it prints and how it ends can be told from other output."""
    begin, over = f"printf '\\036{mark}:P0 0\\037'", f"printf '\\036{mark}:X%s 0\\037' $?"
    return f"{begin}\n(\nexport HERMES_RUN={mark}\n{script}\n) 2>/dev/null\n{over}"


def build_loader(mark: str = "") -> str:
    """Build the script that reads another one, a line of base64, from its input, and becomes that.

    On a terminal, where a `mark` is given, it first makes sure that a long line is taken, and says so (`R`).
    """
    become = 'IFS= read -r line; eval "$(printf %s "$line" | base64 -d)"'
    if not mark:
        return become
    prepare = f"stty -icanon -echo min 1 time 0 2>/dev/null; printf '\\036{mark}:R\\037'"
    return f"{prepare}; {become.replace(';', '; stty icanon echo 2>/dev/null;', 1)}"


def encode_script_line(script: str) -> bytes:
    """Encode the script as the line that the loader reads."""
    return b64encode(script.encode("utf-8", "surrogateescape")) + b"\n"


def encode_script_argument(script: str) -> str:
    """Encode the script as an argument for `sh -c`, without a character that any login shell would interpret."""
    data = b64encode(script.encode("utf-8", "surrogateescape")).decode()
    return f'exec "$(command -v bash || command -v sh)" -c "$(printf %s {data} | base64 -d)"'
