"""The places in a home, as data: where programs keep keys and other people's words, what they obey when they start, and
the tool chains that commands are run by.
"""

from hermes.i18n.messages import N_

AGENT_FOLDERS = str.split("""
    .config/hermes .local/state/hermes .claude .codex .gemini .cursor .copilot .config/github-copilot .config/goose
    .local/share/goose .openclaw .clawdbot .local/share/opencode .config/opencode .config/io.datasette.llm .qwen
    .continue .codeium
""")
APP_FOLDERS = str.split("""
    .config/Code .config/VSCodium .config/Cursor .config/Slack .config/discord .config/Signal .config/hcloud
    .config/scw .config/configstore .config/himalaya .config/code-server .config/neomutt .config/mutt
    .config/weechat .config/offlineimap .local/share/TelegramDesktop .local/share/atuin .local/share/code-server
    .local/share/jupyter/runtime .local/share/weechat .supabase .railway .weechat .mutt .aider .var/app
""")
"""What other programs keep in the home: sessions, tokens, mail and messages are among it."""
KEY_FOLDERS = str.split("""
    .ssh .aws .azure .gnupg .kube .password-store .mozilla .thunderbird .pki .config/gcloud .config/gh .config/hub
    .config/glab-cli .config/rclone .config/chromium .config/google-chrome .config/BraveSoftware
    .config/microsoft-edge .config/vivaldi .config/opera .config/op .config/1Password .1password .config/Bitwarden
    .config/keepassxc .lastpass .config/doctl .config/heroku .config/fly .fly .config/ngrok .ngrok2 .config/helm
    .helm .oci .aliyun .bluemix .terraform.d .config/containers .config/stripe .config/netlify .config/vercel
    .vercel .config/wrangler .wrangler .snowsql .kaggle .config/sops .config/age .age .electrum .bitcoin .ethereum
    .config/solana .local/share/keyrings .local/share/kwalletd .local/share/pass .gem/credentials snap/firefox
    snap/chromium .config/pulumi .pulumi .databricks Library/Keychains Library/Cookies Library/Safari
    .config/evolution .step
""")
KEY_FILES = str.split("""
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
""")
HISTORY_FILES = str.split("""
    .bash_history .zsh_history .histfile .sh_history .history .python_history .psql_history .mysql_history
    .sqlite_history .node_repl_history .rediscli_history .irb_history .viminfo .lesshst .dbshell .mongosh
    .local/share/fish/fish_history .config/fish/fish_history .local/share/nvim/shada
    .ipython/profile_default/history.sqlite .aider.chat.history.md .aider.input.history .aider.llm.history
""")
PROGRAM_FOLDERS = frozenset(("Library", "snap", "Maildir", "Mail"))
"""Folders of a home in which programs keep what is theirs, though their names begin with no dot."""
START_FOLDERS = str.split("""
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
""")
START_FILES = str.split("""
    .yarnrc .gitconfig .gitignore_global .gitattributes .vimrc .gvimrc .exrc .emacs .spacemacs .nanorc .inputrc
    .hgrc .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion .profile .zshrc .zshenv
    .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .shrc .pam_environment .xprofile
    .xinitrc .xserverrc .xsessionrc .xsession .Xresources .Xdefaults .xbindkeysrc .tmux.conf .screenrc .byobu
    .condarc .gemrc .pythonrc .pythonrc.py .pdbrc .irbrc .pryrc .psqlrc .sqliterc .mailcap .mime.types .forward
    .procmailrc .rhosts .shosts .k5login .selected_editor .wgetrc .curlrc .terraformrc .tofurc
    .config/starship.toml .cargo/config .cargo/config.toml .bazelrc .gdbinit .lldbinit .ghci .Rprofile .octaverc
    .perldb .ackrc .lessfilter .lesskey .dircolors .hushlogin .direnvrc .asdfrc .tool-versions .npmignore
    .bunfig.toml .pydistutils.cfg .ansible.cfg .crontab .abcde.conf .fehbg .login_conf
""")
CLOSED_FOLDERS = frozenset((".hermes", *AGENT_FOLDERS, *APP_FOLDERS, *KEY_FOLDERS, *START_FOLDERS))
CLOSED_FILES = frozenset((*KEY_FILES, *HISTORY_FILES, *START_FILES))
SECRET_PLACES = (*KEY_FOLDERS, *KEY_FILES, *HISTORY_FILES, *AGENT_FOLDERS, *APP_FOLDERS)


PROGRAM_PLACES = str.split("""
    .asdf .bun/bin .bun/install .cabal .cargo/bin .cargo/env .deno/bin .dotnet .elan .fnm .gem/ruby .ghcup .goenv
    .jenv .juliaup .local/bin .local/lib .local/pipx .local/share/fnm .local/share/mise/installs
    .local/share/mise/shims .local/share/pipx .local/share/uv/python .local/share/uv/tools .local/share/virtualenvs
    .nix-profile .nodenv .npm-global .nvm .opam .pyenv .rbenv .rustup .rvm .sdkman .stack .swiftly .virtualenvs
    .volta Android/Sdk anaconda3 go/bin Library/Android/sdk Library/Python Library/pnpm mambaforge miniconda3
    miniforge3
""")
"""Where programs of tool chains lie, and what they are run by."""
TOOL_ROWS = {
    N_("programs, and what they are run by"): PROGRAM_PLACES,
    N_("packages that were fetched"): str.split("""
        .cache/go-build .cache/ms-playwright .cache/node .cache/pip .cache/pnpm .cache/pypoetry .cache/uv
        .cache/yarn .cargo/git .cargo/registry .gradle/caches .gradle/wrapper .local/share/pnpm .m2/repository
        .npm/_cacache .pnpm-store .yarn/berry go/pkg/mod Library/Caches/go-build Library/Caches/ms-playwright
        Library/Caches/pip Library/Caches/pypoetry
    """),
    N_("settings that hold no key"): str.split("""
        .gitignore_global .config/git/ignore .config/git/attributes .rustup/settings.toml .terminfo
    """),
}
"""What commands may read of a home that is hidden otherwise, each with the reason."""
TOOL_CHAINS = [place for places in TOOL_ROWS.values() for place in places]
_WHOLE_FOLDERS = str.split("""
    VIRTUAL_ENV CONDA_PREFIX JAVA_HOME GOROOT NVM_DIR PYENV_ROOT RBENV_ROOT RUSTUP_HOME CUDA_HOME CUDA_PATH M2_HOME
    ANDROID_HOME ANDROID_SDK_ROOT FLUTTER_ROOT DOTNET_ROOT SDKMAN_DIR VOLTA_HOME ASDF_DIR ASDF_DATA_DIR MAVEN_HOME
    GRADLE_HOME PNPM_HOME
""")
TOOL_VARIABLES = {
    **dict.fromkeys(_WHOLE_FOLDERS, ("",)),
    "CARGO_HOME": ("bin", "registry", "git", "env"),
    "GOPATH": ("bin", "pkg/mod"),
    "BUN_INSTALL": ("bin", "install"),
    "PIPX_HOME": ("venvs", "shared"),
}
"""Variables by which a person says where a tool chain lies, with the parts of that folder that hold no key."""
