"""Programs that show keys, or what is private: key stores, whole environments, dumps, screens and microphones."""

import re

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs import cloud_clis
from hermes.safety.shell.words import Word, word_set

_SHOWN = "it shows keys or passwords"
_STORES = word_set(
    "pass gopass op bw rbw lpass security secret-tool keyring kwallet-query keepassxc-cli kpcli sops ansible-vault "
    "git-crypt doppler infisical chamber vault gpg gpg2 vaultcmd"
)
"""Programs that keep keys."""
_READS_STORE = re.compile(
    r"(?:\S+ )?(?:show|read|get|kv get|item get|lookup|search|export\S*|reveal|clip|-c|--clip|view|decrypt|-d|"
    r"--decrypt|exec-env|unlock|unwrap|dump-keychain|find-\w+-password|token \w+|print|document get|inject|cat|code|"
    r"list items|secrets|operator init|generate-root|--export-secret-\S+)\b"
)
_TELLS_KEYS = re.compile(
    r"(?:.* )?(?:print-\w+-token|get-(?:secret-value|(?:access-|session-|federation-)?token|login-password|"
    r"authorization\S*)|secrets? (?:versions )?(?:access|get|show|download|view|list)|(?:access|session) ?-?keys? list|"
    r"list-(?:keys|secrets)|auth[: ](?:token|status\b.*(?:-t\b|--show-token))|tokens? (?:create|list)|"
    r"create-access-key|(?:whoami|view)\b.*(?:-t\b|--show-token|--raw)|get-access-token|get-credentials|"
    r"credentials? show|(?:get )?parameters?\b.*--with-decryption|get secrets?\b.*(?:-o|--output|"
    r"--template)[= ]?\s?(?:json|yaml|go-template|custom|template|jsonpath|\{|data)|get secrets?/|extract secret|"
    r"state pull|output\b.*-(?:json|raw)|.*--show-secrets?|config(?: get .*(?:secret|token|_auth)| ?$)|showconf|"
    r"kms decrypt|dump-keys)"
)
"""Words by which a program for what lies elsewhere prints keys."""
_KEEPERS = _STORES | cloud_clis.PROGRAMS
_HOLDING = re.compile(
    r"(?:pg_dump|mysqldump|mariadb-dump|mongodump|mongoexport|ldapsearch|slapcat|screencapture|scrot|import|maim|grim|"
    r"gnome-screenshot|arecord|parecord|tcpdump|tshark|xclip|xsel|pbpaste|wl-paste|history|ssh-add .*-L|lsof|"
    r"journalctl|git (?:config .*(?:-l|--list|--get-regexp|credential)|credential|remote -v)|(?:docker|"
    r"podman) (?:inspect|compose config)|ffmpeg .*(?:x11grab|avfoundation|v4l2|/dev/video|pulse|alsa)|(?:kubectl|"
    r"oc) .*(?:get|describe) (?:secret|configmap|cm)|(?:terraform|tofu) (?:output|show)|heroku config|sqlite3 .*\.dump|"
    r"redis-cli .*(?:--rdb|dump|keys)|getent shadow)"
)
"""What prints something that may hold keys or private things. Looking is fine; sending it away is not."""
_OUTPUTS = re.compile(r"-(o|f|w|output|archive|r)$|--(file|out|output|result-file|archive|rdb|backup)$")
_PICTURE = re.compile(r"[\w~./-]+\.(png|jpe?g|bmp|webp|xwd|mp4|mkv|mov|wav|ogg|flac|mp3|pcap|pcapng|sql|gz|dump|rdb)$")


def shows(call: ProgramCall) -> bool:
    """Judge a program that prints keys; return whether what it prints is to be kept here."""
    name = call.name
    text = " ".join(call.args[:12])[:600]
    is_store = name in _STORES and (_READS_STORE.match(text) or (name == "pass" and _ENTRY.match(text)))
    if "--help" not in call.args and (is_store or (name in _KEEPERS and _TELLS_KEYS.match(text))):
        call.ask("reads-secret", _SHOWN, effect=EffectKind.READS)
        return True
    return _HOLDING.match(f"{name} {text}") is not None


_ENTRY = re.compile(r"(?!(ls|list|find|search|grep|init|git|insert|generate|edit|rm|mv|cp|help|version)\b)[\w./@-]+")


def outputs(call: ProgramCall) -> list[str]:
    """The files into which such a program writes what it shows, as far as its options tell."""
    named = [word for word in call.words if not word.text.startswith("-") and _PICTURE.match(word.text)]
    after = [call.words[at + 1] for at, text in enumerate(call.args[:-1]) if _OUTPUTS.match(text)]
    inside = [
        text.partition("=")[2] for text in call.args if re.match(r"--(file|result-file|out|output|archive)=", text)
    ]
    texts = [*(word.text for word in (*named, *after)), *inside]
    return [*texts, *(call.resolve_path(Word(text)) for text in texts)]
