"""`/permissions`: the mode and the rules about what needs an answer, and taking back what was always allowed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.commands.command import TERMINAL_ONLY, CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, tr
from hermes.sessions.app import find_mode, forget_allowed
from hermes.util.text import escape_confusable_characters, escape_unseen_characters

if TYPE_CHECKING:
    from hermes.tools.permissions.policy_gate import PolicyGate

_REMOVE = "remove"
COMMANDS = CommandList(CommandGroup.WORK)


def _list_allowed(gate: "PolicyGate") -> list[str]:
    """Return the patterns that need no answer, those that were allowed in this session last."""
    return list(dict.fromkeys((*gate.policy.allow, *gate.session_grants.always)))


async def complete_permissions(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the only word."""
    return [MenuOption(_REMOVE, tr("ask again about what is always allowed"))]


@COMMANDS.command(
    "permissions",
    N_("the mode and the rules about what needs your answer; `remove N` asks again"),
    usage=N_("[remove N]"),
    aliases=("allowed-tools",),
    complete=complete_permissions,
    surfaces=TERMINAL_ONLY,
)
async def show_permissions(call: CommandCall) -> None:
    """Show the mode and the rules, or take back one of the patterns that are always allowed."""
    app, actor = call.context.app, call.context.actor
    gate = app.live_session(actor).tools.gate
    if call.text:
        _remove_pattern(call, gate)
        return
    lines = [tr("Mode: {mode}. /mode or Shift-Tab changes it.", mode=find_mode(app, actor).value)]
    lines += [tr("NO QUESTIONS are asked in this session (/yolo ends that).")] if app.is_yolo(actor) else []
    file = escape_unseen_characters(str(app.services.home.config_file))
    if allowed := _list_allowed(gate):
        lines.append(tr("Allowed without a question (command_allowlist in {file}):", file=file))
        lines += [f"  {number}  {escape_confusable_characters(one)}" for number, one in enumerate(allowed, 1)]
        lines.append(tr("/permissions remove N asks about one of them again."))
    else:
        lines.append(tr("No command is always allowed yet."))
    if rules := gate.policy.rules:
        lines.append(tr("Your rules (approvals.rules):"))
        lines += [f"  {one.verdict.value}  {escape_confusable_characters(one.pattern)}" for one in rules]
    granted = [one.pattern for one in gate.session_grants.grants if one.pattern]
    if granted:
        lines.append(tr("Allowed until this session is closed:"))
        lines += [f"  {escape_confusable_characters(one)}" for one in granted]
    lines.append(tr("/sandbox shows what confines commands, /approvals the questions that wait."))
    call.context.tell("\n".join(lines))


def _find_pattern(call: CommandCall, allowed: Sequence[str]) -> str:
    """Return the pattern whose number was given. Raises UsageError."""
    word, _, number = call.text.partition(" ")
    if word == _REMOVE and number.isdecimal() and 1 <= int(number[:9]) <= len(allowed):
        return allowed[int(number) - 1]
    raise UsageError(N_("/permissions takes nothing, or `remove` and the number of a line of its list."))


def _remove_pattern(call: CommandCall, gate: "PolicyGate") -> None:
    """Take a pattern out of config.yaml, out of this session and out of later ones. Raises UsageError."""
    from hermes.admin.config import change_settings
    from hermes.config.load import load_settings

    services = call.context.app.services
    pattern, home = _find_pattern(call, _list_allowed(gate)), services.home
    kept = load_settings(home).settings.command_allowlist
    if pattern in [one.strip() for one in kept]:
        change_settings(home, {("command_allowlist",): [one for one in kept if one.strip() != pattern]})
    forget_allowed(call.context.app, call.context.actor, pattern)
    shown = escape_confusable_characters(pattern)
    call.context.tell(tr("Removed: {pattern}. You are asked about it again.", pattern=shown))
