"""The paths that tools may not write, and those that they may not read; the folders on which these rules depend; the
files of a project that editors, agents, shells and git obey without being asked.

Paths come in resolved; nothing is opened here.
"""

import fnmatch
import os.path
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec import Struct

_NAMES = frozenset(
    str.split(".envrc .mcp.json opencode.json opencode.jsonc .nvim.lua .nvimrc .exrc .irbrc .pdbrc .mise.toml")
)
"""Files that are obeyed in any folder."""
_SUFFIX = ".code-workspace"
_NAMES_IN = {
    folder: frozenset(names.split())
    for folder, names in {
        ".vscode": "tasks.json launch.json settings.json mcp.json",
        ".idea": "tasks.json launch.json settings.json workspace.xml",
        ".zed": "tasks.json launch.json settings.json debug.json",
        ".claude": "settings.json settings.local.json",
        ".cursor": "mcp.json hooks.json",
        ".roo": "mcp.json",
        ".codex": "config.toml hooks.json",
        ".gemini": "settings.json",
        ".helix": "languages.toml config.toml",
    }.items()
}
"""Files that are obeyed in a folder of that name."""
_FOLDERS = (
    *(".husky", ".githooks", ".idea/runConfigurations"),
    *(f".opencode/{name}" for name in ("plugin", "plugins", "tool", "tools")),
)
"""Folders of which every file is obeyed."""
PROJECT_FILES = (
    *sorted(_NAMES),
    *(f"{folder}/{name}" for folder, names in _NAMES_IN.items() for name in sorted(names)),
    *_FOLDERS,
)
"""Files that editors and other tools obey in the folder that they are opened in."""
_OBEYED_NAMES = re.compile(
    "/(?:{})$|/[^/]+{}$|/(?:{})/".format(
        "|".join(re.escape(one) for one in PROJECT_FILES if one not in _FOLDERS),
        re.escape(_SUFFIX),
        "|".join(map(re.escape, _FOLDERS)),
    )
)
_DEPENDENCIES = re.compile(r"/(?:node_modules|site-packages|\.venv|vendor)(?:/|$)")
_GIT_PARTS = frozenset(("config", "config.worktree", "commondir", "HEAD", "hooks", "objects", "refs"))
_GIT_FILES = frozenset(("config", "config.worktree", "commondir", "HEAD"))


def is_project_setting(path: str) -> bool:
    """Return whether a program obeys what is written to this path (absolute), in whatever folder it lies."""
    return _OBEYED_NAMES.search(path) is not None


def find_project_settings(folder: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the names in a folder (absolute) that programs obey; none in folders of dependencies."""
    if _DEPENDENCIES.search(folder):
        return
    above, _, last = folder.rpartition("/")
    whole = last in _FOLDERS or f"{above.rpartition('/')[2]}/{last}" in _FOLDERS
    known = _NAMES_IN.get(last, frozenset())
    yield from (one for one in names if whole or one in _NAMES or one in known or one.endswith(_SUFFIX))


def is_git_shaped(names: Collection[str]) -> bool:
    """Return whether git takes a folder with these entries for a repository, or soon may."""
    return any(
        shape <= frozenset(names)
        for shape in (frozenset(("objects", "refs")), frozenset(("HEAD", "commondir")), frozenset(("HEAD", "config")))
    )


def split_git_target(path: str) -> Iterator[tuple[str, str]]:
    """Yield each folder above a path in which the path would be a part of a repository, with the name of that part."""
    parts = path.split("/")
    for number in range(1, len(parts)):
        name, depth = parts[number], len(parts) - number
        is_part = name in _GIT_PARTS and (depth == 1 if name in _GIT_FILES else depth > 1)
        if is_part or parts[number:] in (["info", "attributes"], ["info", "exclude"]):
            yield "/".join(parts[:number]) or "/", name


def completes_repository(part: str, names: Collection[str]) -> bool:
    """Return whether writing a part of a repository into a folder with these entries changes or makes a repository.

    Folders called `objects` and `refs` are ordinary where no `HEAD` stands beside them.
    """
    if part in ("objects", "refs") and "HEAD" not in names:
        return False
    return is_git_shaped({*names, part})


class Places(Struct, frozen=True, kw_only=True):
    """The folders on which the safety rules depend, all absolute and resolved.

    `hermes` is the Hermes home; `own` are folders inside protected ones that tools may use (results spilled to files).
    `foreign`: the session belongs to a person who is not the owner, so the owner's memories are closed. `confined`:
    nothing of this machine outside of the workspace may be seen.
    """

    home: str
    hermes: str
    workspace: str
    own: tuple[str, ...] = ()
    foreign: bool = False
    confined: bool = False

    def expand_path(self, path: str, cwd: str) -> str:
        """Return an absolute path: `~` is the person's home, relative means below `cwd`. `..` is left standing."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return os.path.join(cwd, path)


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SYSTEM = _split_words(
    """
    /etc /boot /usr /bin /sbin /lib /lib32 /lib64 /dev /proc /sys /run /opt/homebrew/etc /var/spool/cron /var/lib
    /var/run /var/log /var/cache /System /Library /private/etc /private/var/db /snap /nix/store /efi
    """
)
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - a rule names it
_HARMLESS_DEVICES = _split_words("/dev/null /dev/stdout /dev/stderr /dev/zero /dev/tty")
_AGENTS = _split_words(
    """
    .config/hermes .claude .codex .gemini .cursor .copilot .config/github-copilot .config/goose .local/share/goose
    .openclaw .clawdbot .local/share/opencode .config/opencode .config/io.datasette.llm .qwen .continue .codeium
    """
)
_APP_FOLDERS = _split_words(
    """
    .config/Code .config/VSCodium .config/Cursor .config/Slack .config/discord .config/Signal .config/hcloud
    .config/scw .config/configstore .config/himalaya .config/code-server .config/neomutt .config/mutt
    .config/weechat .config/offlineimap .local/share/TelegramDesktop .local/share/atuin .local/share/code-server
    .local/share/jupyter/runtime .local/share/weechat .supabase .railway .weechat .mutt .aider .var/app
    """
)
"""What other programs keep in the home: sessions, tokens, mail and messages are among it."""
_KEY_FOLDERS = _split_words(
    """
    .ssh .aws .azure .gnupg .kube .password-store .mozilla .thunderbird .pki .config/gcloud .config/gh .config/hub
    .config/glab-cli .config/rclone .config/chromium .config/google-chrome .config/BraveSoftware
    .config/microsoft-edge .config/vivaldi .config/opera .config/op .config/1Password .1password .config/Bitwarden
    .config/keepassxc .lastpass .config/doctl .config/heroku .config/fly .fly .config/ngrok .ngrok2 .config/helm
    .helm .oci .aliyun .bluemix .terraform.d .config/containers .config/stripe .config/netlify .config/vercel
    .vercel .config/wrangler .wrangler .snowsql .kaggle .config/sops .config/age .age .electrum .bitcoin .ethereum
    .config/solana .local/share/keyrings .local/share/kwalletd .local/share/pass .gem/credentials snap/firefox
    snap/chromium .config/pulumi .pulumi .databricks Library/Keychains Library/Cookies Library/Safari
    .config/evolution .step
    """
)
_KEY_FILES = _split_words(
    """
    .netrc _netrc .pgpass .my.cnf .mylogin.cnf .pypirc .npmrc .yarnrc.yml .git-credentials .config/git/credentials
    .docker/config.json .dockercfg .cargo/credentials .cargo/credentials.toml .boto .s3cfg .vault-token
    .databrickscfg .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .composer/auth.json
    .config/composer/auth.json .nuget/NuGet/NuGet.Config .huggingface/token .cache/huggingface/token
    .cache/huggingface/stored_tokens .dbt/profiles.yml .config/pypoetry/auth.toml .config/pip/pip.conf
    .pip/pip.conf .Renviron .smbcredentials .msmtprc .mbsyncrc .fetchmailrc .config/hub
    .jupyter/jupyter_server_config.json .config/gitui .rediscli_auth .irssi/config .config/filezilla .config/sqlcl
    .subversion/auth .cloudflared/cert.pem .ngrok.yml .env .envrc .Xauthority .ICEauthority .claude.json
    .claude.json.backup .aider.conf.yml .aider.model.settings.yml .sentryclirc .muttrc .neomuttrc .offlineimaprc
    .terraformrc .tofurc .ansible.cfg .ansible/galaxy_token .vault_pass .vault_pass.txt .vault_password
    .local/share/uv/credentials
    """
)
_HISTORY = _split_words(
    """
    .bash_history .zsh_history .histfile .sh_history .history .python_history .psql_history .mysql_history
    .sqlite_history .node_repl_history .rediscli_history .irb_history .viminfo .lesshst .dbshell .mongosh
    .local/share/fish/fish_history .config/fish/fish_history .local/share/nvim/shada
    .ipython/profile_default/history.sqlite .aider.chat.history.md .aider.input.history .aider.llm.history
    """
)
_START_FOLDERS = _split_words(
    """
    .docker .bundle .vscode .vscode-server .vim .emacs.d .cargo/bin .local/bin .local/lib bin go/bin
    .config/autostart .config/autostart-scripts .config/systemd .local/share/systemd .config/upstart .config/fish
    .config/zsh .zsh .zsh.d .bashrc.d .bash_completion.d .config/bash .config/powershell .config/nushell
    .config/git .config/hg .config/nvim .config/vim .config/emacs .config/helix .config/environment.d .config/pip
    .config/cron .config/plasma-workspace .config/i3 .config/sway .config/hypr .config/awesome .config/openbox
    .config/tmux .config/direnv .config/mise .config/Code .config/zed .config/sublime-text .config/JetBrains
    .config/yarn .config/pnpm .config/ranger .config/mpv .oh-my-zsh .git-templates .git_template .githooks
    .config/containers .local/share/applications .local/share/dbus-1 .local/share/kservices5
    .local/share/nautilus/scripts .config/kitty .config/alacritty .config/wezterm .ipython/profile_default/startup
    .jupyter .julia/config .config/matplotlib .nvm .pyenv .rbenv .asdf .rustup .sdkman Library/LaunchAgents
    Library/LaunchDaemons Library/Services .config/xfce4/autostart .anacron .spacemacs.d .doom.d
    """
)
_START_FILES = _split_words(
    """
    .yarnrc .gitconfig .gitignore_global .gitattributes .vimrc .gvimrc .exrc .emacs .spacemacs .nanorc .inputrc
    .hgrc .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion .profile .zshrc .zshenv
    .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .shrc .pam_environment .xprofile
    .xinitrc .xserverrc .xsessionrc .xsession .Xresources .Xdefaults .xbindkeysrc .tmux.conf .screenrc .byobu
    .condarc .gemrc .pythonrc .pythonrc.py .pdbrc .irbrc .pryrc .psqlrc .sqliterc .mailcap .mime.types .forward
    .procmailrc .rhosts .shosts .k5login .selected_editor .wgetrc .curlrc .terraformrc .tofurc
    .config/starship.toml .cargo/config .cargo/config.toml .bazelrc .gdbinit .lldbinit .ghci .Rprofile .octaverc
    .perldb .ackrc .lessfilter .lesskey .dircolors .hushlogin .direnvrc .asdfrc .tool-versions .npmignore
    .bunfig.toml .pydistutils.cfg .ansible.cfg .crontab .abcde.conf .fehbg .login_conf
    """
)
_HOME_FOLDERS = frozenset((".hermes", *_AGENTS, *_APP_FOLDERS, *_KEY_FOLDERS, *_START_FOLDERS))
_HOME_FILES = frozenset((*_KEY_FILES, *_HISTORY, *_START_FILES))
_SECRET_HOME = (*_KEY_FOLDERS, *_KEY_FILES, *_HISTORY, *_AGENTS, *_APP_FOLDERS)
_SECRET_BELOW = frozenset(_SECRET_HOME)
_PROJECT = re.compile(
    r"/\.git/(hooks(/|$)|commondir$|config(\.worktree)?$|info/(attributes|exclude)$|modules/.*/(hooks/|config$)|worktrees/.*/config)|"
    r"/\.git$|/\.gitmodules$"
)
_PROJECT_SECRET = re.compile(
    r"/(\.env(\.(?!(?:[\w-]+\.)?(?:example|sample|template|tmpl|dist|defaults?|schema|vault)$)[\w.-]+)?"
    r"|terraform\.tfstate(\.[\w.]+)?|[^/]+\.tfstate(\.backup)?|\.netrc|\.pgpass|\.git-credentials|\.pypirc|\.htpasswd"
    r"|[^/]+\.(pem|ppk|jks|keystore)|\.vault-token|\.vault_pass(word)?(\.txt)?|(aws-?)?credentials\.csv|master\.key)$"
)
_SSH_PUBLIC = re.compile(r"/\.ssh/([^/]+\.pub|known_hosts|config)$")
_OPEN_HERMES = _split_words("SOUL.md skills memories plugins media")
"""Names that tools may read in Hermes' own folder; the rest is settings, keys, and other sessions' content."""
_SECRET_SYSTEM = _split_words(
    """
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssl/private
    /etc/krb5.keytab /etc/security/opasswd /etc/master.passwd /etc/wireguard /etc/NetworkManager/system-connections
    /etc/kubernetes /etc/mysql/debian.cnf /etc/rancher /etc/docker/key.json /etc/ppp/chap-secrets
    /etc/ipsec.secrets /run/secrets /var/run/secrets /var/lib/docker /var/lib/kubelet /var/lib/sss/secrets
    /root/.ssh /root/.aws
    """
)
_SECRET_FILES = _split_words(
    "/etc/shadow /etc/gshadow /etc/sudoers /etc/passwd /etc/group /etc/crontab /etc/hosts /etc/profile"
)
_SECRET_NAME = re.compile(r"/(id_(rsa|dsa|ecdsa|ed25519)(_sk)?|ssh_host_\w+_key|[^/]+\.(keytab|kdbx|p12|pfx))$")
_SECRET_PROC = re.compile(
    r"^/proc/[^/]+/(task/[^/]+/)?(environ|mem|auxv|maps|smaps|pagemap|stack|syscall|fdinfo/|map_files/|fd/|root(/|$)|cwd(/|$))|"
    r"^/proc/(k(msg|core|allsyms)|sysrq-trigger|keys)|^/sys/kernel/(debug|tracing)/"
)
_OBEYED = "programs such as git, an editor or another agent run what it says"
_BY_NAME = (
    (_PROJECT, _OBEYED),
    (_SECRET_NAME, "it is a private key"),
    (_PROJECT_SECRET, "it holds the project's keys: tell the person what to change in it"),
)
_SYSTEM_ROOTS, _SECRET_ROOTS = frozenset(_SYSTEM), frozenset(_SECRET_SYSTEM)
_TOP_FOLDERS = _split_words(
    """
    / /bin /boot /dev /etc /home /lib /lib32 /lib64 /opt /proc /root /sbin /srv /sys /usr /var /System /Library
    /Users /Applications /usr/bin /usr/lib /usr/local /var/lib /etc/ssh
    """
)
_KEYS_REASON = "it holds keys or passwords"
OWN_STATE_REASON = "it is Hermes' own: settings, keys and the conversations of other sessions"
CONFINED_REASON = "it is outside this person's folder"
_WORKSPACE_FOLDERS = ("workspace", "people")
"""Folders of Hermes' own in which sessions work: of its owner, and of each person who talks from a chat."""


def write_refusal(path: str, places: Places, *, asked: bool = False) -> str:
    """Return why `path` (absolute, resolved) may not be written; empty when it may.

    `asked`: a person is asked about files of the workspace that hold its keys, such as `.env`, so that is no reason.
    """
    if path in _HARMLESS_DEVICES or path.startswith(_SHARED_MEMORY) or _is_inside(path, places.own):
        return ""
    if elsewhere := _owner_refusal(path, places):
        return elsewhere
    below = _path_below(path, places.home)
    if below is not None and (_is_among(below, _HOME_FOLDERS) or below in _HOME_FILES):
        return "it holds keys or runs at the start of other programs"
    named = _name_refusal(path, asked=asked and _is_inside(path, (places.workspace,)))
    if named:
        return named
    if _is_among(path, _SYSTEM_ROOTS) and not _is_inside(path, (places.workspace,)):
        return "it belongs to the system"
    return ""


def repository_refusal(path: str, list_names: Callable[[str], Collection[str]]) -> str:
    """Return why `path` (absolute, resolved) may not be written, as a part of a git repository under any name.

    Empty when it is none. `list_names` gives the entries of a folder, none for one that is missing.
    """
    parts = split_git_target(path)
    return _OBEYED if any(completes_repository(part, list_names(folder)) for folder, part in parts) else ""


def is_in_own_workspace(path: str, places: Places) -> bool:
    """Return whether a path is the workspace's, which is one of the folders that Hermes keeps for that."""
    is_own = any(is_or_below(places.workspace, f"{places.hermes}/{name}") for name in _WORKSPACE_FOLDERS)
    return is_own and _is_inside(path, (places.workspace,))


def has_start_files_below(path: str, places: Places) -> bool:
    """Return whether files that run at the start of other programs, or hold keys, would lie below a folder
    of the home.
    """
    below = _path_below(path, places.home)
    return bool(below) and any(one.startswith(f"{below}/") for one in (*_HOME_FOLDERS, *_HOME_FILES))


def _name_refusal(path: str, *, asked: bool) -> str:
    if is_project_setting(path):
        return _OBEYED
    found = (why for pattern, why in _BY_NAME if not (asked and pattern is _PROJECT_SECRET) and pattern.search(path))
    return next(found, "")


def read_refusal(path: str, places: Places) -> str:
    """Return why `path` (absolute, resolved) may not be read; empty when it may."""
    if _is_inside(path, places.own):
        return ""
    if places.confined and path != "/dev/null" and not _is_inside(path, (places.workspace,)):
        return CONFINED_REASON
    hermes = _own_state_refusal(path, places)
    if hermes is not None:
        return hermes
    if _is_key_path(path, places):
        return _KEYS_REASON
    if path.startswith("/dev/") and path != "/dev/null" and not path.startswith(_SHARED_MEMORY):
        return "it is a device"
    return "it shows the inside of running programs" if _SECRET_PROC.search(path) else ""


def _owner_refusal(path: str, places: Places) -> str:
    """Return why this session does not write a path: it is Hermes' own, or not the person's."""
    if places.confined and not _is_inside(path, (places.workspace,)):
        return CONFINED_REASON
    if _is_inside(path, (places.hermes,)) and not is_in_own_workspace(path, places):
        return "it belongs to Hermes' own settings and state"
    return ""


def _own_state_refusal(path: str, places: Places) -> str | None:
    """Return why a path in Hermes' own folder may not be read, empty when it may; None for a path outside of it."""
    for folder in (places.hermes, _default_home(places)):
        hermes = _path_below(path, folder)
        if hermes is not None:
            opened = folder == places.hermes and _is_inside(hermes, _readable_names(places))
            return "" if opened or _is_in_workspace(path, folder, places) else OWN_STATE_REASON
    return None


def _readable_names(places: Places) -> tuple[str, ...]:
    """Return the names that may be read in Hermes' own folder: the memories, and the files sent to it, only for its
    owner.
    """
    return tuple(one for one in _OPEN_HERMES if not places.foreign or one not in ("memories", "media"))


def _is_in_workspace(path: str, folder: str, places: Places) -> bool:
    """Return whether a path is the workspace's, which lies in `folder`: who works there has chosen to."""
    return _path_below(places.workspace, folder) is not None and _is_inside(path, (places.workspace,))


def iter_guarded_files(places: Places) -> Iterator[str]:
    """Yield files that stay protected under a second name of the same file."""
    yield from (f"{places.home}/{name}" for name in sorted(_HOME_FILES))
    yield from _SECRET_FILES


def iter_guarded_folders(places: Places) -> Iterator[str]:
    """Yield folders all of whose files stay protected under a second name."""
    yield places.hermes
    yield from (f"{places.home}/{name}" for name in (*_KEY_FOLDERS, ".hermes", *_AGENTS))
    yield from (f"{places.home}/{name}" for name in (".config/autostart", ".config/systemd", ".config/fish"))
    yield from (f"{places.home}/{name}" for name in _APP_FOLDERS)


def list_secret_paths(places: Places) -> tuple[str, ...]:
    """Return the folders and files that commands may not read, except `list_readable_paths`: keys, and Hermes' own."""
    homes = dict.fromkeys((places.hermes, _default_home(places)))
    return (*homes, *(f"{places.home}/{name}" for name in _SECRET_HOME), *_SECRET_SYSTEM)


def _default_home(places: Places) -> str:
    """Return the default home of Hermes: other profiles lie in it, whichever is used."""
    return f"{places.home}/.hermes"


def list_readable_paths(places: Places) -> tuple[str, ...]:
    """Return the paths that may be read inside `list_secret_paths`; for `.ssh` see `is_ssh_public`."""
    return (*(f"{places.hermes}/{name}" for name in _readable_names(places)), *places.own)


def is_ssh_public(path: str) -> bool:
    """Return whether this is one of the files in `.ssh` that hold no key."""
    return _SSH_PUBLIC.search(path) is not None


def expand_to_protected(path: str, places: Places) -> str:
    """Return a path with wildcards, with the protected folder or file that it may match written out, if
    there is one.
    """
    parts = path.split("/")
    for target in list_secret_paths(places):
        wanted = target.split("/")
        if len(wanted) <= len(parts) and all(map(_can_match, wanted, parts)):
            return "/".join([*wanted, *parts[len(wanted) :]])
    return path


def _can_match(name: str, pattern: str) -> bool:
    """Return whether a shell may match `pattern` with `name`; a wildcard at its beginning matches no dot."""
    if name == pattern:
        return True
    return fnmatch.fnmatchcase(name, pattern) and not (name.startswith(".") and not pattern.startswith((".", "[")))


def is_root_like(path: str, places: Places) -> bool:
    """Return whether losing `path` as a whole would lose the system or the person's home."""
    path = os.path.normpath(path.rstrip("*").rstrip("/") or "/")
    return path in _TOP_FOLDERS or path == places.home or places.home.startswith(path + "/")


def _is_key_path(path: str, places: Places) -> bool:
    below = _path_below(path, places.home)
    if below is not None and _is_among(below, _SECRET_BELOW) and not _SSH_PUBLIC.search(path):
        return True
    return _is_among(path, _SECRET_ROOTS) or _SECRET_NAME.search(path) is not None


def _path_below(path: str, folder: str) -> str | None:
    """Return the part of `path` below `folder`; None when it is not there."""
    return path[len(folder) + 1 :] if path.startswith(folder + "/") else None


def _is_inside(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _is_among(path: str, names: frozenset[str]) -> bool:
    """Return whether the path, or a folder above it, is one of these."""
    at = path.find("/", 1)
    while at > 0:
        if path[:at] in names:
            return True
        at = path.find("/", at + 1)
    return path in names


def is_or_below(path: str, folder: str) -> bool:
    """Return whether a path is this folder or lies in it, by their names."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


_AUTORUN_NAMES = frozenset(
    str.split("""
    makefile gnumakefile makefile.am cmakelists.txt justfile rakefile gemfile vagrantfile dockerfile
    containerfile docker-compose.yml docker-compose.yaml compose.yml compose.yaml package.json .npmrc .yarnrc
    .yarnrc.yml setup.py setup.cfg pyproject.toml tox.ini noxfile.py pytest.ini conftest.py sitecustomize.py
    usercustomize.py manage.py .pre-commit-config.yaml .envrc .env.sh .gitattributes .gitmodules .gitlab-ci.yml
    .travis.yml jenkinsfile azure-pipelines.yml build.gradle build.gradle.kts settings.gradle pom.xml build.rs
    cargo.toml build.sbt mix.exs composer.json gulpfile.js gruntfile.js webpack.config.js vite.config.js
    vite.config.ts jest.config.js babel.config.js .eslintrc.js eslint.config.js tsconfig.json deno.json
    lefthook.yml procfile agents.md claude.md gemini.md soul.md .hermes.md .cursorrules .windsurfrules .mcp.json
    mcp.json skill.md copilot-instructions.md .inputrc .bashrc .profile .zshrc .vimrc .exrc .lldbinit .gdbinit
    """)
)


_AUTORUN_SUFFIXES = (
    ".sh",
    ".bash",
    ".zsh",
    ".pth",
    ".service",
    ".timer",
    ".desktop",
    ".plist",
    ".cron",
    ".mk",
    ".bat",
    ".ps1",
)


_AUTORUN_FOLDERS = re.compile(
    r"/(\.github/workflows|\.github/actions|\.circleci|\.husky|\.githooks|\.git|\.vscode|\.idea|\.devcontainer|\.claude|"
    r"\.cursor|\.cargo|cron\.[a-z]+|\.config/(systemd|autostart)|skills|hooks)(/|$)",
    re.IGNORECASE,
)


def is_autorun_file(path: str) -> bool:
    """Return whether programs will run, or agents obey, a file written to this path."""
    name = os.path.basename(path).lower()
    return name in _AUTORUN_NAMES or name.endswith(_AUTORUN_SUFFIXES) or _AUTORUN_FOLDERS.search(path) is not None
