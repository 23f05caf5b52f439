"""Programs that show keys, or what is private: key stores, whole environments, dumps, screens and microphones."""

import re

from hermes.safety.shell.call import ProgramCall, is_private_file, is_root_like_path
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import Word, word_set

_SHOWN = "it shows keys or passwords"
_SHOWS: dict[str, str] = {
    # By program: words that make it print a key; matched from its first word on.
    "gcloud": r"(.* )?(auth (application-default )?print-(access|identity)-token|secrets versions access)",
    "aws": r"(.* )?(secretsmanager (get-secret-value|batch-get)|ssm get-parameters?\b.*--with-decryption|"
    r"sts (get-session-token|assume-role|get-federation-token)|ecr get-login-password|ecr get-authorization|"
    r"configure (get .*(secret|token|key)|export-credentials)|iam create-access-key|eks get-token|"
    r"kms decrypt|rds generate-db-auth-token|codeartifact get-authorization-token|lambda get-function-configuration)",
    "az": r"(.* )?(keyvault secret (show|download)|account get-access-token|acr credential show|"
    r"storage account keys list|ad sp create|ad app credential reset|functionapp keys list|.*list-(keys|secrets)|"
    r"aks get-credentials)",
    "gh": r"auth (token|status\b.*(-t\b|--show-token))",
    "glab": r"auth (token|status\b.*(-t\b|--show-token))",
    "vault": r"(.* )?(read|kv get|token (create|lookup)|unwrap|print token|operator init|generate-root)\b",
    "kubectl": r"(.* )?(get (secrets?|.*,secrets?)\b(?=.*(-o|--output|--template)[= ]?\s?"
    r"(json|yaml|go-template|custom|template|jsonpath|\{|data))|"
    r"config view\b.*--raw|create token|get secrets?/|view-secret)",
    "oc": r"(.* )?(get secrets?\b.*(-o|--output)|whoami (-t|--show-token)|extract secret|config view\b.*--raw)",
    "pass": r"(show |-c |--clip )?(?!(ls|list|find|search|grep|init|git|insert|generate|edit|rm|mv|cp|help|version)\b)"
    r"[\w./@-]+",
    "gopass": r"(show|cat|-o|-c)\b",
    "security": r"(find-(generic|internet)-password\b.*-\w*[wg]|dump-keychain|export|find-identity .*-p)",
    "op": r"(read|item get|document get|signin .*--raw|get item|inject)\b",
    "bw": r"(get (password|item|totp|notes|attachment)|export|unlock .*--raw|list items)",
    "rbw": r"(get|code|export)\b",
    "lpass": r"(show|export)\b",
    "secret-tool": r"(lookup|search)\b",
    "keyring": r"get\b",
    "kwallet-query": r".*-r",
    "keepassxc-cli": r"(show|export|clip|attachment-export)\b",
    "kpcli": r"",
    "gpg": r".*--export-(secret|options)",
    "gpg2": r".*--export-secret",
    "sops": r"(.* )?(-d|--decrypt|decrypt|exec-env)\b",
    "ansible-vault": r"(view|decrypt)\b",
    "git-crypt": r"(unlock|export-key)",
    "heroku": r"(config\b(?!:(set|unset|edit))|auth:token|pg:credentials:url|.*--show-secrets)",
    "doppler": r"(secrets (get|download)|secrets\b.*--json|configs tokens create)",
    "infisical": r"(export|secrets)\b",
    "chamber": r"(read|export|list -e)\b",
    "npm": r"token (create|list)|config get .*(_auth|token)",
    "doctl": r"auth (list|token)|.*credentials|registry docker-config",
    "flyctl": r"auth token|tokens create",
    "fly": r"auth token|tokens create",
    "stripe": r"config --list",
    "terraform": r"output\b.*(-json|-raw)|state pull|show\b.*-json",
    "tofu": r"output\b.*(-json|-raw)|state pull",
    "pulumi": r".*--show-secrets|config get",
    "consul": r"kv (get|export)\b.*(secret|token|password|recurse)",
    "etcdctl": r"get\b.*(secret|/registry|--prefix)",
    "docker-credential-desktop": r"get",
    "docker-credential-osxkeychain": r"get",
    "docker-credential-secretservice": r"get",
    "docker-credential-pass": r"get",
    "git-credential-store": r"get",
    "git-credential-cache": r"get",
    "git-credential-libsecret": r"get",
    "git-credential-manager": r"get",
    "cmdkey": r"/list",
    "vaultcmd": r"/listcreds",
    "klist": r".*-K",
    "wg": r"(showconf|show .*(private|preshared))",
    "nmcli": r"(.* )?(-s|--show-secrets)\b|.*802-11-wireless-security\.psk",
    "networksetup": r"-getairportpassword",
    "sqlite3": r".*(logins\.json|Login Data|cookies\.sqlite|Cookies|key[34]\.db)",
    "ssh-keygen": r".*-p\b.*-N ?(''|\"\")?$",
    "wpa_cli": r".*psk",
    "mimipenguin": r"",
    "laZagne": r"",
    "lazagne": r"",
    "mimikatz": r"",
    "unshadow": r"",
    "pypykatz": r"",
    "secretsdump.py": r"",
}
_ASKED = {name: re.compile(text) for name, text in _SHOWS.items()}
_HOLDING: dict[str, str] = {
    # By program: what it prints may hold keys or private things. Looking is fine; sending it away is not.
    "aws": r"configure export|.*\b(sts|iam get|secretsmanager|ssm)\b",
    "kubectl": r"(.* )?(get|describe) (secrets?|configmaps?|cm)\b|config view",
    "ssh-add": r".*-L",
    "git": r"config .*(-l|--list|--get-regexp|credential)|credential|remote -v",
    "docker": r"(inspect|compose config|config|exec \S+ (env|printenv))\b",
    "podman": r"(inspect|exec \S+ (env|printenv))\b",
    "history": r"",
    "fc": r"-l",
    "ps": r"(\w*e|-\w*E|.* e)\b",
    "systemctl": r"show-environment",
    "launchctl": r"getenv",
    "terraform": r"(output|state pull|show)",
    "age": r".*-d",
    "gpg": r".*(-d|--decrypt)\b",
    "heroku": r"config",
    "lsof": r"",
    "atuin": r"history|search",
    "pg_dump": r"",
    "pg_dumpall": r"",
    "mysqldump": r"",
    "mariadb-dump": r"",
    "mongodump": r"",
    "mongoexport": r"",
    "sqlite3": r".*\.(dump|backup|clone)",
    "sqldump": r"",
    "cockroach": r"dump",
    "ldapsearch": r"",
    "slapcat": r"",
    "getent": r"shadow",
    "redis-cli": r".*(--rdb|--pipe|dump|keys)",
    "etcdctl": r"snapshot save|get",
    "scrot": r"",
    "maim": r"",
    "grim": r"",
    "import": r".*-window",
    "screencapture": r"",
    "gnome-screenshot": r"",
    "spectacle": r"",
    "flameshot": r"",
    "xwd": r"",
    "ffmpeg": r".*(x11grab|avfoundation|v4l2|/dev/video|pulse|alsa|gdigrab|dshow|kmsgrab|fbdev)",
    "fswebcam": r"",
    "imagesnap": r"",
    "arecord": r"",
    "parecord": r"",
    "parec": r"",
    "rec": r"",
    "xclip": r".*-o",
    "xsel": r".*(-o|--output)",
    "pbpaste": r"",
    "wl-paste": r"",
    "tcpdump": r"",
    "tshark": r"",
    "journalctl": r"",
}
_LABELLED = {name: re.compile(text) for name, text in _HOLDING.items()}
_LISTENERS = frozenset(["logkeys", "showkey", "evtest", "keylogger", "xspy", "xkbcat"])
_OUTPUTS = re.compile(r"-(o|f|w|output|archive|r)$|--(file|out|output|result-file|archive|rdb|backup)$")
_PICTURE = re.compile(r"[\w~./-]+\.(png|jpe?g|bmp|webp|xwd|mp4|mkv|mov|wav|ogg|flac|mp3|pcap|pcapng|sql|gz|dump|rdb)$")


def shows(call: ProgramCall) -> bool:
    """Judge a program that prints keys; whether what it prints is to be kept here."""
    name = call.name
    asked, labelled = _ASKED.get(name), _LABELLED.get(name)
    if asked is None and labelled is None:
        if name in _LISTENERS:
            call.ask("reads-secret", "it records what the person types")
        return False
    if not call.args and name in ("pass", "op", "bw", "xsel", "ssh-add"):
        return False
    text = " ".join(call.args[:12])[:600]
    if asked is not None and asked.match(text) and "--help" not in call.args:
        call.add_effect(EffectKind.READS)
        call.ask("reads-secret", _SHOWN)
        return True
    return labelled is not None and labelled.match(text) is not None


def outputs(call: ProgramCall) -> list[str]:
    """The files into which such a program writes what it shows, as far as its options tell."""
    named = [word for word in call.words if not word.text.startswith("-") and _PICTURE.match(word.text)]
    after = [call.words[at + 1] for at, text in enumerate(call.args[:-1]) if _OUTPUTS.match(text)]
    inside = [
        text.partition("=")[2] for text in call.args if re.match(r"--(file|result-file|out|output|archive)=", text)
    ]
    texts = [*(word.text for word in (*named, *after)), *inside]
    return [*texts, *(call.resolve_path(Word(text)) for text in texts)]


_SEARCHERS = word_set("grep egrep fgrep rg ag ack ugrep git-grep")
_SEARCHED = re.compile(
    r"pass(word|wd)?\b|secret|token|api.?_?key|private.?key|credential|AKIA|BEGIN .*KEY|bearer", re.IGNORECASE
)


def _in_folders(call: ProgramCall) -> bool:
    """Whether a search goes through whole folders."""
    return call.name in ("rg", "ag", "ack") or any(
        re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive|--dereference-recursive", text) for text in call.args
    )


def searched(call: ProgramCall) -> None:
    """grep and its like over a whole home or system, for what looks like keys."""
    if call.name not in _SEARCHERS:
        return
    if not _in_folders(call):
        return
    operands = [word for word in call.words if not word.text.startswith("-")]
    if not any(is_root_like_path(call.resolve_path(word), call.host.places) for word in operands[1:] or operands):
        return
    if any(_SEARCHED.search(text) or is_private_file(text.rpartition("=")[2]) for text in call.args):
        call.add_effect(EffectKind.READS)
        call.ask("reads-secret", "it searches all of the person's files for keys")
