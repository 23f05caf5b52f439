"""The table of verbs: which module answers each, and what it does. Nothing of a verb is imported here."""

from hermes.i18n.messages import phrase

VERBS: dict[str, tuple[str, str]] = {
    "chat": ("hermes.cli.chat", phrase("talk with the agent (`-q TEXT` for one message, with its work shown)")),
    "setup": (
        "hermes.cli.commands.setup",
        phrase("from nothing to a working model; takes over what another agent has kept"),
    ),
    "model": ("hermes.cli.commands.model", phrase("the model that answers: show, choose, list")),
    "tools": ("hermes.cli.commands.tools", phrase("list the tool sets, and switch them on or off")),
    "config": ("hermes.cli.commands.config", phrase("show, set, edit and check the settings")),
    "status": (
        "hermes.cli.commands.status",
        phrase("how things stand: model, keys, sandbox, sessions, money, what waits, on one screen"),
    ),
    "gateway": (
        "hermes.cli.commands.gateway.gateway",
        phrase("answer on chat platforms, and run jobs when they are due"),
    ),
    "send": ("hermes.cli.commands.gateway.send", phrase("say something to a chat, from a script")),
    "people": (
        "hermes.cli.commands.gateway.people",
        phrase("who may talk with the agent from chats: list, add, change, remove"),
    ),
    "pairing": (
        "hermes.cli.commands.gateway.pairing",
        phrase("make, list and take back the codes by which somebody becomes known"),
    ),
    "audit": (
        "hermes.cli.commands.gateway.audit",
        phrase("what people did from chats: messages, answers, changes, strangers"),
    ),
    "sessions": (
        "hermes.cli.commands.sessions",
        phrase("list, show, search, rename, export, prune and delete sessions"),
    ),
    "insights": (
        "hermes.cli.commands.insights",
        phrase("tokens, money and work by day, hour, model and tool, as pictures"),
    ),
    "usage": ("hermes.cli.commands.spending", phrase("tokens and money spent, and what the caps leave")),
    "skills": ("hermes.cli.commands.skills", phrase("list, view, install, approve and take back skills")),
    "memory": ("hermes.cli.commands.memory", phrase("list, change, approve and take back what the agent remembers")),
    "cron": (
        "hermes.cli.commands.cron",
        phrase("jobs on a clock: list, add, change, run, stop, and what became of them"),
    ),
    "webhook": (
        "hermes.cli.commands.gateway.webhook",
        phrase("what other programs may report: list, add, remove, test"),
    ),
    "auth": ("hermes.cli.commands.auth", phrase("list, add, remove and reset the keys of model providers")),
    "approvals": ("hermes.cli.commands.approvals", phrase("list and answer the questions that wait for you")),
    "prompt-size": ("hermes.cli.commands.prompt_size", phrase("how large each part is that every request begins with")),
    "doctor": (
        "hermes.cli.commands.doctor",
        phrase("examine this home and machine, say what to do; `--fix` mends what is safe to mend"),
    ),
    "logs": ("hermes.cli.commands.logs", phrase("what went wrong inside, newest last; `-f` follows")),
    "backup": ("hermes.cli.commands.backup", phrase("put the home into one file, or list the backups there are")),
    "restore": ("hermes.cli.commands.restore", phrase("put a backup in the place of what is there")),
    "profile": ("hermes.cli.commands.profile", phrase("several homes beside each other: list, create, clone, use")),
    "worktree": ("hermes.cli.commands.worktree", phrase("list and remove the git worktrees that `-w` made")),
    "update": (
        "hermes.cli.commands.update",
        phrase("say how to update, or do it; goes back when the new version does not work"),
    ),
    "completion": (
        "hermes.cli.commands.completion",
        phrase("what a shell needs to complete commands, options and names"),
    ),
    "mcp": ("hermes.cli.commands.mcp", phrase("list the MCP servers, or try one")),
    "trust": ("hermes.cli.commands.trust", phrase("vouch for a project's folder, or list the trusted ones")),
    "home": ("hermes.cli.commands.home", phrase("show the home folder, or agree to share one with another program")),
    "guard": (
        "hermes.cli.commands.guard",
        phrase("say what would be allowed: a command, a path, a URL; show a text without secrets"),
    ),
    "version": ("hermes.cli.commands.version", phrase("show the version")),
}
"""Verbs: the module with its `run(arguments)`, and what it does."""


HIDDEN = {"__complete": "hermes.cli.commands.candidates"}
"""Verbs that programs call and nobody types."""
