"""The table of verbs: which function answers each, and what it does. A verb is imported when it is loaded."""

from collections.abc import Callable
from functools import partial

from hermes.i18n.messages import N_

VERBS: dict[str, tuple[str, str]] = {
    "chat": ("hermes.cli.chat", N_("talk with the agent (`-q TEXT` for one message, with its work shown)")),
    "resume": ("hermes.cli.chat:run_resume", N_("go on with a session: the one that is named, or chosen from a list")),
    "setup": (
        "hermes.cli.commands.setup",
        N_("set up a working model; import what another agent has stored"),
    ),
    "model": ("hermes.cli.commands.model", N_("the model that answers: show, choose, list")),
    "tools": ("hermes.commands.tools:TOOLS", N_("list the tool sets, and switch them on or off")),
    "config": ("hermes.cli.commands.config:CONFIG", N_("show, set, edit and check the settings")),
    "status": (
        "hermes.commands.status:STATUS",
        N_("everything on one screen: model, keys, sandbox, sessions, money, pending approvals"),
    ),
    "gateway": (
        "hermes.cli.commands.gateway:GATEWAY",
        N_("answer on chat platforms, and run jobs when they are due"),
    ),
    "serve": ("hermes.cli.commands.serve:SERVE", N_("serve programs over HTTP: runs, their events, sessions")),
    "acp": ("hermes.cli.commands.acp", N_("serve an editor over the Agent Client Protocol")),
    "send": ("hermes.cli.commands.send:SEND", N_("send a message to a chat, from a script")),
    "people": (
        "hermes.commands.people:PEOPLE",
        N_("who may talk with the agent from chats: list, add, change, remove"),
    ),
    "pairing": (
        "hermes.commands.people:PAIRING",
        N_("make, list and revoke pairing codes"),
    ),
    "audit": (
        "hermes.commands.people:AUDIT",
        N_("what people did from chats: messages, answers, changes, unknown senders"),
    ),
    "sessions": (
        "hermes.commands.sessions:SESSIONS",
        N_("list, show, search, rename, export, prune and delete sessions"),
    ),
    "insights": (
        "hermes.commands.usage:INSIGHTS",
        N_("tokens, money and work by day, hour, model and tool, as pictures"),
    ),
    "usage": ("hermes.commands.usage:USAGE", N_("tokens and money spent, and what the caps leave")),
    "skills": ("hermes.commands.skills:SKILLS", N_("list, view, install, approve and take back skills")),
    "memory": ("hermes.commands.memory:MEMORY", N_("list, change, approve and take back what the agent remembers")),
    "cron": (
        "hermes.commands.cron:CRON",
        N_("scheduled jobs: list, add, change, run, stop, and see their history"),
    ),
    "webhook": (
        "hermes.commands.webhooks:WEBHOOK",
        N_("what other programs may report: list, add, remove, test"),
    ),
    "moa": ("hermes.commands.mixture:MOA", N_("the mixtures of models that /moa asks")),
    "auth": ("hermes.commands.auth:AUTH", N_("list, add, remove and reset the keys of model providers")),
    "approvals": ("hermes.commands.permissions:APPROVALS", N_("list and answer the questions that wait for you")),
    "prompt-size": ("hermes.cli.commands.prompt_size", N_("how large each part is that every request begins with")),
    "doctor": (
        "hermes.commands.status:DOCTOR",
        N_("check this home and machine and say what to do; `--fix` fixes what is safe to fix"),
    ),
    "logs": ("hermes.commands.status:LOGS", N_("the log, newest last; `-f` follows")),
    "backup": ("hermes.commands.backup:BACKUP", N_("put the home into one file, or list the backups there are")),
    "restore": ("hermes.commands.backup:RESTORE", N_("restore a backup")),
    "profile": ("hermes.commands.profiles:PROFILE", N_("several homes beside each other: list, create, clone, use")),
    "worktree": ("hermes.commands.worktrees:WORKTREE", N_("list and remove the git worktrees that `-w` made")),
    "update": (
        "hermes.commands.update:UPDATE",
        N_("say how to update, or do it; goes back when the new version does not work"),
    ),
    "uninstall": ("hermes.commands.update:UNINSTALL", N_("say what removes Hermes, and where its home is")),
    "completion": (
        "hermes.cli.commands.completion",
        N_("what a shell needs to complete commands, options and names"),
    ),
    "plugins": (
        "hermes.commands.plugins:PLUGINS",
        N_("other people's code: hooks, packages, plug-ins; enable, disable"),
    ),
    "import": (
        "hermes.commands.other_agents:IMPORT",
        N_("use what Claude Code, codex or opencode left here: commands, agents, skills, MCP servers"),
    ),
    "mcp": ("hermes.commands.mcp:MCP", N_("MCP servers: list, add, try, remove")),
    "browser": (
        "hermes.commands.browser:BROWSER",
        N_("the browser that the agent uses: show it, sign in to sites, forget sign-ins"),
    ),
    "trust": ("hermes.commands.permissions:TRUST", N_("trust a project's folder, or list the trusted ones")),
    "home": (
        "hermes.commands.profiles:HOME",
        N_("show the home folder, or agree to share one with another program"),
    ),
    "guard": (
        "hermes.cli.commands.guard",
        N_("check what would be allowed: a command, a path, a URL; show a text without secrets"),
    ),
    "version": ("hermes.commands.update:VERSION", N_("show the version")),
}
"""Commands: their module with the name of their `Verb`, or of their function where that is not `run`; and what the
command does.
"""


VERB_GROUPS: dict[str, tuple[str, ...]] = {
    N_("chat:"): ("chat", "resume", "sessions", "memory", "skills", "usage", "insights"),
    N_("set up:"): (
        "setup", "model", "moa", "auth", "config", "tools", "mcp", "plugins", "import", "browser", "trust",
        "profile", "completion",
    ),
    N_("gateway, chats and jobs:"): (
        "gateway", "serve", "acp", "send", "people", "pairing", "approvals", "audit", "cron", "webhook",
    ),
    N_("look after:"): (
        "status", "doctor", "logs", "backup", "restore", "update", "home", "worktree", "guard", "prompt-size",
        "uninstall", "version",
    ),
}  # fmt: skip
"""The commands by what they are for, as `hermes --help` shows them."""


HIDDEN_VERBS = {"__complete": "hermes.cli.commands.completion:run_candidates"}
"""Commands that programs call and nobody types."""


def is_prompt(word: str) -> bool:
    """Return whether a word of the command line is a prompt and no mistyped command: commands and names have no blanks
    and are ASCII.
    """
    return any(one.isspace() for one in word.strip()) or not word.isascii()


def load_verb(verb: str) -> Callable[[list[str]], int]:
    """Import the module of a verb and return its function: it takes the arguments, returns an exit code."""
    import importlib

    module, _, function = (HIDDEN_VERBS[verb] if verb in HIDDEN_VERBS else VERBS[verb][0]).partition(":")
    found = getattr(importlib.import_module(module), function or "run")
    if callable(found):
        run: Callable[[list[str]], int] = found
        return run
    from hermes.cli.verb_runner import run_verb

    return partial(run_verb, found)


def load_package_verb(name: str) -> Callable[[list[str]], int] | None:
    """Return the function of a command that an enabled package adds; None where there is none. One that cannot be
    loaded is reported by what is returned.
    """
    from hermes.plugins import PACKAGES

    if not PACKAGES.has_any():
        return None
    from hermes.commands.packages import find_package_verb
    from hermes.core.errors import HermesError

    try:
        verb = find_package_verb(name)
    except HermesError as error:
        from hermes.cli.output import report_failure

        code = report_failure(error)
        return lambda _arguments: code
    if verb is None:
        return None
    from hermes.cli.verb_runner import run_verb

    return partial(run_verb, verb)
