"""All rules by the name of the program, and what is judged of every call.

Options with which a program only says what it would do. The only table of them.

Only those stand here with which the program itself stops short of doing it, whatever else is given.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from hermes.safety.shell import dataflow
from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs import (
    archives,
    builders,
    builtins,
    cloud_clis,
    containers,
    databases,
    disks,
    editing,
    fetched,
    files,
    finding,
    git,
    interpreters,
    keystores,
    lookups,
    machine,
    network,
    option_injection,
    own,
    packages,
    processes,
    services,
    shells,
    text,
    unbounded_output,
    windows,
    wrappers,
)
from hermes.safety.shell.words import EMPTY_STREAM, NO_LABELS, SECRET, STORED, ShellStream, word_set

Rule = Callable[[ProgramCall], ShellStream | None]


def vendors(call: ProgramCall) -> ShellStream | None:
    """Programs of vendors: their verbs, and the statements that they hand on."""
    cloud_clis.judge(call)
    databases.carried(call)
    return ShellStream(None, frozenset({STORED})) if call.name in cloud_clis.STORES else None


RULES: dict[str, Rule] = {
    **builders.RULES,
    **dict.fromkeys(cloud_clis.PROGRAMS, vendors),
    **windows.RULES,
    **containers.RULES,
    **databases.RULES,
    **text.RULES,
    **disks.RULES,
    **files.RULES,
    **editing.RULES,
    **finding.RULES,
    **archives.RULES,
    **machine.RULES,
    **packages.RULES,
    **processes.RULES,
    **services.RULES,
    **network.RULES,
    **interpreters.RULES,
    **shells.RULES,
    **wrappers.RULES,
    **builtins.RULES,
    **git.RULES,
    **own.RULES,
    "bun": interpreters.bun,
    "npm": builders.node_packages,
    "yarn": builders.node_packages,
    "pnpm": builders.node_packages,
    "pip": builders.pip,
}
"""What judges a call, by the name of the program."""
RULES |= {name: lookups.beside(RULES.get(name)) for name in lookups.PROGRAMS}
RULES |= {name: fetched.before(RULES.get(name)) for name in fetched.PROGRAMS}

LOOKERS = word_set(
    """
    echo printf ls du tree realpath readlink stat test [ [[ chmod chown mkdir ssh ssh-keygen ssh-add ssh-copy-id git cd
    file dirname basename rm rmdir touch export declare local readonly unset set alias which type scp rsync curl wget
    sh bash zsh dash python python3 node perl ruby docker podman sudo env find kubectl tar cp mv ln install sftp
    """
)
"""Programs whose words may name a file with keys without showing what is in it, or that judge that by themselves."""

_PATTERN_FIRST = word_set("grep egrep fgrep rg ag sed awk gawk jq yq ack pgrep")
_READERS = word_set(
    """
    true false : test [ [[ ls dir pwd date cal uptime who w whoami id groups uname hostname arch nproc free df du tree
    stat file wc uniq comm
    diff cmp join paste column expand fmt pr cksum md5sum sha1sum sha256sum sha512sum b2sum md5 shasum nm objdump
    readelf ldd size od hexdump
    grep egrep fgrep rg ag ack pgrep jq yq xmllint which whereis type hash help info apropos whatis tldr man locate ps
    top htop btop pstree lsof ss
    netstat lsblk blkid lscpu lsmem lspci lsusb lsmod dmesg journalctl last lastlog vmstat iostat sar env-show getconf
    getent locale tty stty
    clear reset sleep wait jobs fg bg disown shift return exit break continue let getopts ulimit umask times caller
    compgen complete shopt bind
    dirname basename realpath readlink mktemp mkdir tput expr bc dc factor seq shuf tsort look spell aspell spellcheck
    wall write mesg logger say notify-send
    code subl open xdg-open fold fmt cloc tokei scc ncdu dust exa eza lsd bat delta fzf zoxide history-show pbcopy
    pbpaste xclip xsel wl-copy
    cal ncal figlet cowsay lolcat neofetch fastfetch task todo bd jira hostid logname users finger mtr traceroute
    tracepath whois arp nmap
    md5deep identify exiftool ffprobe mediainfo pdfinfo pdftotext sha224sum sum zipinfo unrar-list gzip gunzip bzip2
    xz unxz zstd
    ssh-keygen ssh-add ssh-copy-id ssh-keyscan pytest-show python-config mkfifo coproc enable builtin-show
    shellcheck checkbashisms batcat bashate command-show suspend logout popd-show
    """
)
"""Programs that only look, or whose writing is harmless: they run no code out of the folder."""
_BUILDERS = word_set("cargo rails rake mix")
"""Programs with rules for something else that also run code out of the folder."""
DANGEROUS = tuple(sorted(files.DANGEROUS))
_COMMANDS = frozenset(
    {*files.RULES, *disks.RULES, *processes.RULES, *services.RULES, *shells.SHELLS}
    | word_set(
        "sudo doas xargs curl wget nc busybox crontab iptables useradd userdel usermod passwd chpasswd insmod rmmod"
    )
) - word_set(
    "find install sort at host history set unset ip sc service init format erase del tee touch cp "
    "port tar ln mount kill zip "
    "route level skill crash sed ln rip trash wipe scrub server caddy solr named puppet salt exim "
    "mongod halt isolate pause "
    "mtd asr nvme hdfs zfs wsl elasticsearch logstash kibana nagios asterisk squid slapd traefik "
    "httpd nginx haproxy zzz apm "
    "monit postfix pcs crm sv dovecot mailman"
)
"""Names that mean a program wherever they stand among the arguments of a program that is not known."""
_TEXT_OPTIONS = re.compile(r"--?(exec|execute|command|cmd|run|eval|shell|script|hook|on-\w+|pre\w*|post\w*|e|c|x)$")
_COMMAND_TEXT = re.compile(
    r"\brm\s+(-\w+\s+)*-\w*[rR]|\bmkfs\b|\bdd\s+if=|(curl|wget)\b[^|]{0,300}\|\s*\w*sh\b|removeSync|:\(\)\s*\{|"
    r"\b(sudo|shutdown|reboot)\s"
)


_VERSIONED = (interpreters.interpreter, builders.pip, builders.compiled)


def _of_version(name: str) -> Rule | None:
    """The rule for `python3.11`, `pip3.11`, `gcc-12`: other rules look their programs up by the exact name."""
    rule = RULES.get(interpreters.unversioned(name))
    return rule if rule in _VERSIONED else None


def judged(call: ProgramCall) -> ShellStream:
    """Judge a call by every rule that is for it; what it writes to its output."""
    name = call.name
    rule = RULES.get(name) or (_of_version(name) if name[-1:].isdigit() else None)
    if name in PLANS and only(call):
        rule = _changes_nothing
    out = rule(call) if rule is not None else None
    if name in _BUILDERS:
        dataflow.judge_code_folder(call, call.cwd)
    labels = _read(call, rule)
    if rule is None:
        _without_rule(call)
    option_injection.judge(call)
    keystores.searched(call)
    if out is None:
        out = ShellStream(None, call.stdin.labels | labels) if name not in ("true", "false", ":") else EMPTY_STREAM
    elif labels:
        out = ShellStream(out.text, out.labels | labels)
    return unbounded_output.followed(call, _labelled(call, out))


def _read(call: ProgramCall, rule: Rule | None) -> frozenset[str]:
    """What the files that a program is given make of its output."""
    if call.name in LOOKERS or not call.words or rule is interpreters.interpreter:
        return NO_LABELS
    return call.judge_reads(call.words[1:] if call.name in _PATTERN_FIRST else call.words)


def _changes_nothing(call: ProgramCall) -> None:
    """The rule for programs that only say what they would do."""


def _without_rule(call: ProgramCall) -> None:
    databases.carried(call)
    editing.by_option(call)
    if call.name.startswith("mkfs."):
        disks.made(call)
    if call.name not in _READERS:
        _unknown_program(call)


def _labelled(call: ProgramCall, out: ShellStream) -> ShellStream:
    """What a program writes, with what is known of it: keys, or a text made to be evaluated."""
    if keystores.shows(call):
        for path in keystores.outputs(call):
            call.state.files[path] = ShellStream(None, frozenset({SECRET}))
        return ShellStream(out.text, out.labels | {SECRET})
    if HOOKS.match(call.name) and not call.fed:
        return ShellStream(out.text, out.labels | {"hook"})
    return out


HOOKS = re.compile(
    r"(ssh-agent|direnv|pyenv|rbenv|nodenv|starship|zoxide|fzf|mise|asdf|brew|opam|conda|fnm|thefuck|keychain|"
    r"gpg-agent|dircolors|"
    r"register-python-argcomplete|kubectl|docker|gh|mcfly|atuin|navi|luarocks|jenv|goenv|plenv|resize|tset|"
    r"lesspipe|minikube|poetry|uv|helm|"
    r"oh-my-posh|swiftly|pdm|hatch|rustup|lesskey|locale|vivid|sheldon|carapace|just|devbox|nix)$"
)
"""Programs whose output is made to be evaluated by a shell."""


_LOADER = re.compile(r"ld(-linux[\w.-]*|-musl[\w.-]*)?\.so(\.\d+)*$")


def _unknown_program(call: ProgramCall) -> None:
    """A program without a rule: it may run what lies in its folder, or what its arguments say."""
    if windows.powershell(call):
        return
    if _LOADER.match(call.name):
        option_injection.loader(call)
        return
    call.add_effect(EffectKind.RUNS, (call.cwd,))
    cloud_clis.unknown(call)
    cloud_clis.migrations(call)
    _texts_in(call)
    for at, word in enumerate(call.words[:6]):
        if word.text.rpartition("/")[2] in _COMMANDS and at + 1 < len(call.words) and not word.quoted:
            call.judge_program(call.words[at:], lost=True)
            break
    if any(SECRET in word.labels for word in call.words) and any(_ADDRESS.match(word.text) for word in call.words):
        call.ask("exfiltration", "it may send keys away")


_ADDRESS = re.compile(r"\w+://|[\w-]+(\.[\w-]+)+$")


def _texts_in(call: ProgramCall) -> None:
    """Options of it that look like a command."""
    words = call.words
    for at, word in enumerate(words[:12]):
        option, equals, value = word.text.partition("=")
        if equals and _TEXT_OPTIONS.match(option) and _COMMAND_TEXT.search(value):
            _nested(call, value)
        elif _TEXT_OPTIONS.match(word.text) and at + 1 < len(words) and _COMMAND_TEXT.search(words[at + 1].text):
            _nested(call, words[at + 1].text)


def _nested(call: ProgramCall, text: str) -> None:
    call.ask("nested-program", "its arguments hold a command that deletes or downloads")
    call.judge_script(text, lost=True)


class _Plan(NamedTuple):
    """How a program is told to change nothing."""

    said: str
    """Letters and long names, any of which says it."""
    valued: str = ""
    """Letters whose value stands behind them: what follows is no option."""
    named: frozenset[str] = frozenset()
    verbs: str = ""
    """What its operands have to begin with for that."""


_MADE = _Plan("n", "bCdeEfgGiIJlLmMNoOrTtUz")


_RESTORED = _Plan("t test", "TMw", word_set("table modprobe wait"))


PLANS: dict[str, _Plan] = {
    **dict.fromkeys(("mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4"), _MADE),
    "mkfs.xfs": _Plan("N", "bcdilmnprsL"),
    "sfdisk": _Plan("n no-act", "oNOwWXY", word_set("backup-file label partno wipe wipe-partitions label-nested")),
    "fsck": _Plan("N", "tCr"),
    "visudo": _Plan("c check", "fx", word_set("file export")),
    **dict.fromkeys(("iptables-restore", "ip6tables-restore"), _RESTORED),
    "nft": _Plan("c check", "fID", word_set("file includepath define")),
    "shutdown": _Plan("k"),
    "systemctl": _Plan("dry-run", "HMptsno", verbs=r"(halt|poweroff|reboot|kexec|suspend|hibernate|default|rescue)\b"),
    "alembic": _Plan("sql", "cnx", word_set("config name tag"), verbs=r"(up|down)grade\b"),
    "salt": _Plan("", "CELGNSIR", verbs=r"\S+ state\.\w+ (.* )?test=True$"),
    "poetry": _Plan("dry-run", "rupPC", word_set("repository username password dist-dir"), verbs="publish"),
    "pacman": _Plan("p print", "br", word_set("dbpath root config arch cachedir hookdir")),
    "borg": _Plan("n dry-run", "dwmyHPa", verbs=r"(delete|prune|create|extract|recreate)\b"),
    "restic": _Plan("n dry-run", "ropH", verbs=r"(forget|prune|backup|restore)\b"),
    "rclone": _Plan("n dry-run", "", word_set("config filter include exclude backup-dir log-file")),
    "gsutil": _Plan("n", "oux", verbs=r"rsync\b"),
    "pulumi": _Plan("preview-only", "sCm", verbs=r"(up|destroy|refresh)\b"),
    **dict.fromkeys(
        ("docker", "docker-compose"),
        _Plan(
            "dry-run",
            "fpHc",
            word_set("file project-name env-file profile host context"),
            verbs=r"(compose )?(down|rm|kill|up|stop)\b",
        ),
    ),
}
"""By program."""


_FALSE = word_set("false no none 0 off")


_VERBS = {name: re.compile(plan.verbs) for name, plan in PLANS.items()}


def only(call: ProgramCall) -> bool:
    """Whether a call of a program of the table changes nothing."""
    plan = PLANS[call.name]
    options = call.parse_options(plan.valued, plan.named)
    said = plan.said.split()
    if said and (not options.has_option(*said) or any(word.text in _FALSE for word in options.option_values(*said))):
        return False
    return _VERBS[call.name].match(" ".join(word.text for word in options.operands)) is not None
