"""What the words and options of other agents' command lines are called here, or what there is instead of them.

A word stands behind its command where it means something there alone (`gateway/setup`, `mcp/add/--scope`). An option
alone is one of a conversation (`hermes`, `hermes chat`). What ours do is not repeated here: the parsers say it.
"""

from collections.abc import Callable

from hermes.i18n.messages import N_
from hermes.util.localizable import join_localizable

SAME_HERE = {
    "hermes -z TEXT": "exec,e,run,ask,prompt,query,print",
    "-z TEXT": "--print,--prompt,--message,--exec,--headless,--non-interactive,--no-interactive,--prompt-interactive",
    "-z -": "--message-file,--prompt-file,--stdin",
    "-o FILE": "--output-last-message,--output-file",
    "-C FOLDER": "--cwd,--directory,--dir,--workdir,--working-dir,--working-directory,--project",
    "--resume ID": "--session,-s,--session-id,--thread,--conversation,--restore",
    "--continue": "--last,--latest,--restore-chat-history",
    "--output-format FORMAT": "--format",
    "--stream-json": "--jsonl,--experimental-json,--include-partial-messages",
    "--output-schema FILE": "--json-schema,--schema,--response-schema",
    "--max-cost USD": "--max-budget-usd,--max-budget,--budget",
    "--max-turns N": "--max-session-turns,--max-steps,--max-iterations",
    "--image FILE": "-i,--picture",
    "--allow PATTERN": "--allowedTools,--allowed-tools,--allow-tool",
    "--mode plan": "--dry-run,--plan,--architect,--read-only",
    "--mode auto": "--mode/acceptEdits,--mode/auto-edit,--mode/bypassPermissions,--mode/full-auto,--mode/yolo",
    "--mode ask": "--mode/default,--mode/manual,--mode/suggest",
    "-t A,B": "--tools",
    "hermes sessions rename": "--name,-n,--title",
    "--safe-mode": "--bare,--no-config",
    "--provider NAME": "--oss,--local-provider",
    "--plain": "--no-alt-screen,--no-tui,--no-pretty,--no-fancy-input",
    "hermes setup": (
        "init,onboard,configure,setup-token,model/setup,auth/setup,gateway/setup,gateway/init,"
        "gateway/configure,channels/add,telegram,discord,slack,matrix,--setup"
    ),
    "hermes setup --import": "migrate,claw,claw/migrate",
    "hermes auth add": "auth/set,key,keys,apikey,api-key,--api-key,--openai-api-key,--anthropic-api-key",
    "hermes auth login": "login,--login",
    "hermes auth logout": "logout,--logout",
    "hermes auth list": "auth/status,auth/whoami",
    "hermes sessions": "history,threads,conversations,chats,--list,--list-sessions,--all",
    "hermes sessions share": "share,--share",
    "hermes sessions export": "export,--export",
    "hermes sessions delete": "delete,archive,--delete-session",
    "hermes resume": "continue,attach,sessions/resume,sessions/continue,sessions/open",
    "hermes usage": "stats,cost,costs,spending,sessions/cost,--cost",
    "hermes model list": "models,--list-models,--models,auth/models",
    "hermes update": "upgrade,--update,--upgrade,self-update",
    "hermes uninstall": "remove,--uninstall",
    "hermes gateway": "channels,platforms,bot",
    "hermes gateway run": ("web,daemon,listen,dashboard,remote-control,gateway/up,--gui,--browser"),
    "hermes serve": "server,app-server,--serve,--port,--hostname",
    "hermes gateway stop": "gateway/down",
    "hermes plugins": "plugin,extension,extensions,hook,hooks,--hooks,--list-extensions,--plugin-dir",
    "hermes skills": "bundles",
    "hermes skills install": "skills/add",
    "hermes skills list": "skills/search,skills/browse,skills/find",
    "hermes memory list": "memory/show,memory/search,memory/view",
    "hermes config show": "config/view",
    "hermes mcp add": "mcp/import,mcp/add-from-claude-desktop,--mcp-config,--strict-mcp-config",
    "hermes mcp serve": "mcp-server",
    "hermes acp": "--acp,--ide",
    "hermes mcp list": "mcp/status,--list-mcp-servers",
    "hermes approvals": "permissions,allowlist,--approvals",
    "hermes guard": "sandbox,execpolicy",
    "hermes doctor": "health,check,diagnose,--doctor",
    "hermes logs": "debug,dump,--debug,-d,--debug-file,--print-logs,--log-level,--log-file",
    "hermes status": "whoami,info,login/status,gateway/health",
    "hermes send": "message,notify,message/send",
    "hermes cron": "jobs,schedule,reminders,tasks",
    "hermes cron run": "cron/trigger",
    "hermes cron history": "cron/runs,cron/logs",
    "hermes people": "users,contacts",
    "hermes people role": "people/set,people/promote,people/demote",
    "hermes pairing": "pair,devices,nodes,gateway/pair",
    "hermes config": "settings,preferences,--settings,--setting-sources",
    "hermes config set": "set,config/add,--set,--config",
    "hermes config check": "--strict-config,config/validate,config/lint,config/migrate",
    "hermes tools": "--enable,--disable,features,toolsets,--list-tools",
    "hermes prompt-size": "context",
    "hermes profile use": "profile/switch,profile/select,profile/set",
    "hermes trust": "--skip-trust,--trust",
}
"""What is called otherwise here: an option of the same command, or a command."""
ANSWERS = {
    N_(
        'Instead, --mode plan changes nothing, --mode auto asks fewer questions in the sandbox, --allow "PATTERN"'
        " lets commands run without a question, and /yolo in a chat asks none in that session."
    ): (
        "--permission-mode,--approve-for-me,--dangerously-bypass-hook-trust,"
        "--approval-mode,--approval-policy,--ask-for-approval,-a,--yolo,-y,--yes,"
        "--yes-always,--dangerously-skip-permissions,--allow-dangerously-skip-permissions,"
        "--dangerously-bypass-approvals-and-sandbox,--full-auto,--auto,--auto-approve,--allow-all-tools,"
        "--force"
    ),
    N_("`-q TEXT` shows the work of one message, `hermes logs` what went wrong, `hermes --version` the version."): (
        "-v,--verbose"
    ),
    N_("AGENTS.md in the folder and SOUL.md in the home are what every conversation begins with."): (
        "--append-system-prompt,--system-prompt,--append-system-prompt-file,--system-prompt-file,"
        "--instructions,--rules,--system"
    ),
    N_("`hermes tools disable NAME` switches a tool set off; -t A,B names those of one run."): (
        "--disallowedTools,--disallowed-tools,--exclude-tools,--excluded-tools,--deny-tool"
    ),
    N_("A folder beside the working folder is asked about when it is needed."): "--add-dir,--include-directories",
    N_("`hermes config set agent.reasoning_effort high` holds for all sessions, /reasoning in a chat for one."): (
        "--effort,--reasoning-effort,--thinking,--thinking-tokens,--reasoning,--variant"
    ),
    N_("`fallback_providers` in config.yaml names the models that take over."): "--fallback-model,--fallback-models",
    N_("Every folder will do, and nothing is committed unless you ask for it: leave it out."): (
        "--skip-git-repo-check,--no-git,--auto-commits,--no-auto-commits,--no-dirty-commits"
    ),
    N_("Every session is kept; `hermes sessions delete ID` deletes one."): (
        "--ephemeral,--no-session-persistence,--no-session"
    ),
    N_("Name the file in the text, as @FILE, or pipe it in; pictures: --image FILE."): (
        "-f,--file,--files,--read,--attach,--attachment,--input"
    ),
    N_("The variable NO_COLOR switches colors off; `hermes config list --all` shows what `display` has."): (
        "--color,--no-color,--theme,--dark-mode,--light-mode,--vim"
    ),
    N_("The web tools are on by themselves; `hermes config set web.search_backend NAME` chooses the search."): (
        "--search,--web-search,--web"
    ),
    N_(
        "Commands run in a sandbox where this machine has one: `hermes doctor` says which, `terminal.backend` sets it."
    ): "-s,--sandbox",
    N_("/branch in a chat goes on in a copy of the session; this one stays."): "fork,branch,--fork,--fork-session",
    N_("In a chat /diff shows what was changed, and /undo takes it back."): "apply,diff,undo,rewind,--apply",
    N_('Ask for it in words: hermes -z "Review the changes of this branch".'): (
        "review,pr,commit,cloud,--review,--commit,--lint,--lint-cmd,--auto-lint,--test,--test-cmd,--auto-test"
    ),
    N_("There is one agent; skills say what it can do besides, and /personality in a chat how it speaks."): (
        "agent,agents,--agent,--agents"
    ),
    N_("`auxiliary` in config.yaml names models for side tasks, such as condensing."): (
        "--weak-model,--small-model,--editor-model"
    ),
    N_("What is piped in is text: cat FILE | hermes -z TEXT."): "--input-format",
    N_("Keys and variables are in `.env` of the home; `hermes auth add` adds a key."): "--env-file,--set-env,env",
    N_("`hermes config set model.stream false` asks for answers as a whole."): "--stream,--no-stream",
    N_("Servers stand in config.yaml of the home and serve in every folder; a profile (`-p NAME`) has its own."): (
        "mcp/add/--scope,mcp/add/-s,mcp/add-json/--scope,mcp/add-json/-s,mcp/reset-project-choices"
    ),
}
"""What there is instead, where nothing of ours is the same."""


Describe = Callable[[str], str | None]
"""Returns what an option or command does, as `-o FILE` or `hermes setup` name it; None for an option that cannot be
given here.
"""


def explain_foreign_word(word: str, describe: Describe) -> str:
    """Return what a word is called here, or what there is instead; empty for a word that is not known."""
    word = word.replace(" ", "/")
    names = [ours for ours, theirs in SAME_HERE.items() if word in theirs.split(",")]
    answers = [answer for answer, theirs in ANSWERS.items() if word in theirs.split(",")]
    return join_localizable(" ", [*(_name_ours(ours, describe(ours)) for ours in names), *answers])


def list_foreign_commands() -> list[str]:
    """Return the words that stand where a command does."""
    words = [word for theirs in (*SAME_HERE.values(), *ANSWERS.values()) for word in theirs.split(",")]
    return [word for word in words if not word.startswith("-") and "/" not in word]


def _name_ours(ours: str, what: str | None) -> str:
    if what is None:
        return ""
    if not what:
        return N_("Here that is `{ours}`.", ours=ours)
    return N_("Here that is `{ours}`: {what}.", ours=ours, what=what)
