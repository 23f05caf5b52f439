"""The machine: users, kernel, firewall, network, mounts, jobs, history, and what takes all of it."""

import re
from typing import NamedTuple

from hermes.safety.shell.call import ProgramCall, Rule
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs.disks import LARGE, size_of
from hermes.safety.shell.words import EMPTY_STREAM, Label, ShellStream, word_set

_LATER = "it changes what runs later by itself"
_CHANGES = "it changes the running system"
_BOMB = "it takes all of the machine's processes or memory"


def jobs(call: ProgramCall) -> None:
    """crontab, at, batch: what runs later."""
    options = call.parse_options("uf" if call.name != "crontab" else "u")
    if call.name in ("crontab", "fcrontab"):
        if not options.has_option("l", "T", "V", "help"):
            call.ask("crontab", _LATER, effect=EffectKind.PERSISTS, targets=("crontab",))
    elif not options.has_option("l", "V", "c"):
        call.add_effect(EffectKind.PERSISTS, ("at",))
        if call.stdin.text:
            call.judge_script(call.stdin.text, lost=True, stdin=EMPTY_STREAM)
        call.ask("time", _LATER)


def network(call: ProgramCall) -> ShellStream | None:
    """ip: cutting or changing the network, or running something in another one."""
    if call.args[:2] == ["netns", "exec"]:
        call.ask("network", "it runs in another network")
        return call.judge_program(call.words[3:], lost=True)
    _judge_changing(call, _NETWORK)
    return None


def parameters(call: ProgramCall) -> None:
    """sysctl: writing."""
    options = call.parse_options("p", "load system")
    if options.has_option("w", "write", "p", "load", "system") or any("=" in word.text for word in options.operands):
        call.ask("system", _CHANGES, effect=EffectKind.ESCALATES)


_TURNED_OFF = word_set("HISTFILE HISTSIZE HISTFILESIZE")


def history(call: ProgramCall) -> None:
    """history, set +o history, unset HISTFILE, fc."""
    args = call.args
    if call.name == "history" and any(re.fullmatch(r"-[a-z]*[cdwr]\w*|clear|delete|--clear", text) for text in args):
        call.ask("traces", "it wipes or rewrites the history of commands")
    elif (call.name == "set" and "+o" in args and "history" in args) or (
        call.name == "unset" and _TURNED_OFF.intersection(args)
    ):
        call.ask("traces", "it turns off the history of commands")
    elif call.name == "unset":
        for text in args:
            call.state.variables.pop(text, None)


def unset(call: ProgramCall) -> ShellStream | None:
    """set, unset: `set` alone shows every variable."""
    history(call)
    if call.name == "set" and not call.args:
        return ShellStream(None, frozenset({Label.SECRET}))
    if call.name == "set" and call.args[:1] == ["--"]:
        call.state.positional = list(call.words[1:])
    elif call.name == "set" and call.words and not call.args[0].startswith(("-", "+")):
        call.state.positional = list(call.words)
    return EMPTY_STREAM


def filled(call: ProgramCall) -> ShellStream | None:
    """fallocate, mkfile, stress: all of a disk, or of the memory."""
    if call.name in ("fallocate", "mkfile", "xfs_mkfile"):
        options = call.parse_options("lo", "length offset")
        sizes = [word.text for word in (*options.option_values("l", "length"), *options.operands[:1])]
        if any(size_of(text) > LARGE for text in sizes):
            call.ask("fills", "it fills the disk", effect=EffectKind.EXHAUSTS)
        for word in options.operands[-1:]:
            call.judge_write(call.resolve_path(word))
        return None
    if call.args and call.args[0] in ("--help", "--version"):
        return None
    call.ask("bomb", _BOMB, effect=EffectKind.EXHAUSTS)
    return None


class _Group(NamedTuple):
    """Programs that are asked about with the same words."""

    rule: str
    kind: EffectKind
    reason: str


_WALL = _Group("wall", EffectKind.ESCALATES, "it opens the firewall, or turns a protection off")
_NETWORK = _Group("network", EffectKind.ESCALATES, "it cuts or changes the network")
_TRACES = _Group("traces", EffectKind.OVERWRITES, "it wipes or rewrites the records of what was done")
_SETTINGS = _Group("time", EffectKind.PERSISTS, _LATER)
_USERS = _Group("users", EffectKind.ESCALATES, "it changes who may use the machine")
_SYSTEM = _Group("system", EffectKind.ESCALATES, _CHANGES)
_RIGHTS = _Group("rights", EffectKind.ESCALATES, "it runs with another user's rights")
_TRACED = _Group("kill-unknown", EffectKind.KILLS, "it takes control of other processes")
_TUNNEL = _Group("tunnel", EffectKind.SENDS, "it opens this machine to others")
_FLOOD = _Group("flood", EffectKind.EXHAUSTS, "it may overload another host")

_VERBS = re.compile(
    r"(?:^|\s)(?:--?)?(?:add\w*|allow|append|apply|appen\w+|attach|block|ch(?:ange|ain)|clean\S*|clear\S*|cl|clone|connect|create|"
    r"default|delete\S*|del\w*|deny|destroy|direct|dns|disable\S*|disconnect|down|drop|enable|erase|flush\S*|forget|"
    r"import|insert\S*|install|limit|load|merge|modify|off|panic-o\w*|permanent|policy|purge|reject|reload|"
    r"remove\S*|rm|rename|replace|reset\S*|restore|revert|rotate|set\S*|stop|swap|terminate|truncate|try|up|update|"
    r"vacuum\S*|write|unblock|complete-reload|change)\b|\S=\S|(?:^|\s)-[a-zA-Z]*[FXPDAINZEdfFkKPRCes](?:\s|$)"
)
"""Words by which a program changes something, whatever it is called."""
_SHOWN = re.compile(
    r"(?:-\w+ )*(?:-h|--help|--version|-V|-L|--list|-S|-vL|-nL|-nvL|list|show|status|get|query|--state|--get\S*)\b|"
    r"(?:-\w+ )*(?:addr|address|a|link|l|route|r|neigh|n|rule|netns)(?: (?:show|list|get|ls)|$)|"
    r"(?:-\S+ )*(?:con\w*|dev\w*|general|radio|c|d|g)(?: (?:show|status|list|wifi(?: list)?))?$|-[ls]$"
)
_JUST_SHOWN = word_set(
    "--help --version -h -V --list -read -S --status --dry-run list status show ls info --print version"
)
_SYSTEM_SHOWN = _JUST_SHOWN | word_set("-n -v -l --show-depends --display -D --config -I -s -i -p -ls --query -getcap")


_TUNNEL_SHOWN = word_set("version --version help --help -h status ip list --list ls ping netcheck whois info")


def _judge_changing(call: ProgramCall, group: _Group) -> None:
    """Judge a program that changes something by its verbs, and shows something by others."""
    text = " ".join(call.args)
    if _VERBS.search(text) and not _SHOWN.match(text):
        _ask(call, group)


def _ask(call: ProgramCall, group: _Group) -> None:
    call.add_effect(group.kind, [word.text for word in call.parse_options().operands[:2]])
    call.ask(group.rule, group.reason)


def _changing(group: _Group, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), lambda call: _judge_changing(call, group))


def _asking(group: _Group, names: str, shown: frozenset[str] = _JUST_SHOWN) -> dict[str, Rule]:
    """Return rules for programs that ask unless they are only made to show something."""

    def judge(call: ProgramCall) -> None:
        if not shown.intersection(call.args) and (call.args or call.name not in _SHOW_ALONE):
            _ask(call, group)

    return dict.fromkeys(names.split(), judge)


_SHOW_ALONE = word_set(
    "hostnamectl timedatectl localectl hwclock bootctl mokutil swapon efibootmgr machinectl multipath cpupower setpci "
    "pw dscl mount semanage chage kmod ab wrk wrk2 hey siege iptables ip6tables ebtables arptables"
)
"""Programs that only show something when they are given nothing."""
_HERE = re.compile(r"\b(localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0)\b")


def floods(call: ProgramCall) -> None:
    """Judge load makers and attack programs, against anything but this machine."""
    if call.args and not _JUST_SHOWN.intersection(call.args[:1]) and not _HERE.search(" ".join(call.args)):
        _ask(call, _FLOOD)


RULES: dict[str, Rule] = {
    "crontab fcrontab at batch atrm": jobs,
    "sysctl": parameters,
    "ip": network,
    "history": history,
    "unset set": unset,
    "stress stress-ng fallocate mkfile xfs_mkfile memtester": filled,
    **dict.fromkeys(
        word_set(
            "ab wrk wrk2 hey siege bombardier oha h2load httperf autocannon slowloris slowhttptest t50 masscan zmap "
            "hydra medusa ncrack patator sqlmap msfconsole aireplay-ng mdk4 nikto gobuster dirb wfuzz ffuf"
        ),
        floods,
    ),
    **_changing(
        _WALL,
        "iptables ip6tables ebtables arptables nft ufw firewall-cmd pfctl ipset shorewall csf socketfilterfw "
        "netfilter-persistent ipfw",
    ),
    **_asking(
        _WALL,
        "iptables-restore ip6tables-restore nft-restore setenforce setsebool apparmor_parser aa-remove-unknown "
        "fdesetup gatekeeper",
    ),
    **_changing(
        _NETWORK,
        "ifconfig route nmcli tc netplan rfkill iw ethtool networksetup resolvectl brctl ovs-vsctl arp wg wg-quick "
        "connmanctl dhclient scutil wpa_cli iwctl",
    ),
    **_asking(_NETWORK, "ifdown ifup macchanger arpspoof ettercap bettercap"),
    **_changing(_TRACES, "journalctl logrotate dmesg wevtutil auditctl auditpol faillog lastlog"),
    **_changing(
        _SETTINGS,
        "gsettings dconf defaults kwriteconfig5 kwriteconfig6 xfconf-query authselect sysrc nvram tccutil "
        "crudini augtool",
    ),
    **_asking(
        _USERS,
        "useradd userdel usermod adduser deluser groupadd groupdel groupmod gpasswd chpasswd chgpasswd visudo vipw "
        "chsh chfn newusers dscl sysadminctl chage pwconv pwunconv delgroup addgroup luseradd luserdel lpasswd pw "
        "rmuser smbpasswd pdbedit samba-tool kadmin ldapmodify ldapdelete ldapadd ssh-copy-id ssh-import-id "
        "dseditgroup dsenableroot passwd",
    ),
    **_asking(
        _SYSTEM,
        "modprobe rmmod insmod depmod update-initramfs mkinitcpio dracut grub-install update-grub kmod dkms grubby "
        "grub-mkconfig grub2-mkconfig grub2-install tune2fs lilo swapoff swapon fsfreeze hdparm efibootmgr setcap "
        "bootctl mokutil debugfs resize2fs xfs_repair csrutil spctl update-alternatives hostnamectl timedatectl "
        "localectl pivot_root sg_format zerofree e2fsck fsck reiserfsck ntfsfix hwclock ntpdate setpci flashrom "
        "ldconfig chcon restorecon semanage semodule dmsetup multipath kpartx partprobe rpcdebug bpftool bpftrace "
        "cgdelete cgset cpupower mknod kextload kextunload update-rc.d",
        _SYSTEM_SHOWN,
    ),
    **_asking(_SYSTEM, "mount umount"),
    **_asking(_SYSTEM, "losetup", _JUST_SHOWN | word_set("-l -a --all")),
    **_asking(_RIGHTS, "pkexec capsh machinectl run0 dzdo pfexec ksu super please gksudo gksu kdesu kdesudo sudoedit"),
    **_asking(_TRACED, "gcore reptyr crash frida frida-trace dtrace stap"),
    **_asking(
        _TUNNEL,
        "tmate upterm teleconsole sshx ttyd gotty wetty shellinaboxd serveo rathole inlets ligolo pwncat iodine "
        "ptunnel ngrok cloudflared localtunnel lt chisel bore frpc tailscale x11vnc vncserver tightvncserver "
        "x0vncserver wayvnc rustdesk anydesk teamviewer gs-netcat",
        _TUNNEL_SHOWN,
    ),
}
