"""Power and services: what stops the machine, and what stops or starts things that others rely on."""

import re
from collections.abc import Callable, Sequence

from hermes.safety.shell.call import ProgramCall, resolve_path
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs.processes import means_hermes
from hermes.safety.shell.words import ShellStream, word_set

Rule = Callable[[ProgramCall], ShellStream | None]
_STOPS = "it stops what the machine needs"
_LATER = "it changes what runs later by itself"


def stopped(call: ProgramCall) -> None:
    """Refuse: the machine would stop."""
    call.add_effect(EffectKind.KILLS, ("machine",))
    call.deny("power", "it stops the machine")


def power(call: ProgramCall) -> None:
    """shutdown, reboot, poweroff, halt."""
    if call.args and call.parse_options().has_option("help", "version", "show", "w", "wtmp-only"):
        return
    if call.name == "shutdown" and call.args[:1] in (["-c"], ["/a"], ["-a"]):
        return
    stopped(call)


def level(call: ProgramCall) -> None:
    """init, telinit."""
    if any(text in ("0", "6") for text in call.args):
        stopped(call)
    elif call.args and re.fullmatch(r"[1-5sSqQ]", call.args[0]):
        call.ask("service", _STOPS)


_POWERING: dict[str, str] = {
    # By program: words with which it turns the machine off or puts it to sleep.
    "ipmitool": r".*(chassis )?power (off|cycle|reset|soft|diag)",
    "rtcwake": r".*(-m|--mode)[= ]?(off|mem|disk|standby|freeze)",
    "kexec": r".*(-e|--exec|-f|--force)\b",
    "uadmin": r"",
    "pmset": r"(sleepnow|displaysleepnow|schedule|repeat)",
    "gnome-session-quit": r".*--(power-off|reboot)",
    "xfce4-session-logout": r".*(--halt|--reboot|-h|-r)",
    "qdbus": r".*(logout|powerOff|reboot)",
    "pm-suspend": r"",
    "pm-hibernate": r"",
    "zzz": r"",
    "apm": r".*(-s|--suspend)",
    "acpitool": r".*-[sS]",
    "vbetool": r"dpms off",
    "bmc-device": r".*reset",
    "racadm": r".*(powerdown|powercycle|hardreset|racreset)",
    "ilorest": r"reboot",
    "redfishtool": r".*reset",
    "fence_ipmilan": r"",
    "stonith_admin": r"",
}
_OFF = {name: re.compile(text, re.IGNORECASE) for name, text in _POWERING.items()}


def powering(call: ProgramCall) -> None:
    """Programs of boards, sessions and boot loaders that turn the machine off."""
    text = " ".join(call.args)
    if "--help" in call.args or text in ("status", "-V", "--version"):
        return
    if _OFF[call.name].match(text):
        stopped(call)
    elif call.name == "kexec":
        call.add_effect(EffectKind.ESCALATES)
        call.ask("system", "it changes the running system")


_OFF_VERBS = word_set(
    "reboot poweroff halt kexec soft-reboot exit suspend hibernate hybrid-sleep suspend-then-hibernate rescue "
    "emergency switch-root sleep"
)
_OFF_TARGET = re.compile(
    r"(reboot|poweroff|halt|rescue|emergency|shutdown|suspend|hibernate|kexec|exit|"
    r"runlevel[016])\.target$"
)
_UNITS_STOPPED = word_set("isolate stop disable mask kill edit revert set-default set-property freeze clean cancel")
_UNITS_LATER = word_set(
    "enable link reenable preset preset-all add-wants add-requires set-environment import-environment"
)


def systemd(call: ProgramCall) -> None:
    """systemctl."""
    options = call.parse_options("HMntps", word_set("host machine type state property signal root kill-who"))
    verbs = [word.text for word in options.operands]
    if options.has_option("help", "version") or not verbs or not verbs[0]:
        return
    verb = verbs[0]
    if _turns_off(verbs):
        stopped(call)
    elif verb in _UNITS_STOPPED or (options.has_option("force") and verb not in _UNITS_LATER):
        call.add_effect(EffectKind.KILLS, verbs[1:])
        call.ask("service", _STOPS)
    elif verb in ("restart", "try-restart", "reload-or-restart") and _is_own(verbs):
        call.ask("kill-self", "it may end Hermes itself")
    elif verb in _UNITS_LATER:
        call.add_effect(EffectKind.PERSISTS, verbs[1:])
        call.ask("time", _LATER)


def _turns_off(verbs: Sequence[str]) -> bool:
    return verbs[0] in _OFF_VERBS or (
        verbs[0] in ("isolate", "start", "reboot.target") and any(map(_OFF_TARGET.search, verbs))
    )


def _is_own(verbs: Sequence[str]) -> bool:
    return any(means_hermes(text.removesuffix(".service")) for text in verbs[1:])


_STOPPING = word_set(
    """
    stop stopall stop-all down unload bootout remove disable kill force-stop terminate terminate-user terminate-session
    kill-session kill-user kill-server quit shutdown exit halt del delete abort fast-stop graceful-stop force-shutdown
    stopdaemon onestop forcestop zap pause
    """
)
_LATER_VERBS = word_set(
    "load bootstrap enable enable-linger submit setenv add startup save unmask update-rc defaults on persist"
)
_CONTROLLERS: dict[str, str] = {
    # By program: which of its words besides the stopping ones matter; "later" where it also arranges what starts later.
    **dict.fromkeys(word_set("service rc-service sv initctl supervisorctl invoke-rc.d s6-rc runsvctl dinitctl"), ""),
    **dict.fromkeys(word_set("launchctl loginctl update-rc.d chkconfig rc-update pm2 insserv"), "later"),
    **dict.fromkeys(
        word_set(
            "apachectl apache2ctl rndc unbound-control pdns_control postfix exim monit varnishadm asadmin "
            "zkServer.sh kafka-server-stop.sh catalina.sh shutdown.sh standalone.sh pg_ctl pg_ctlcluster "
            "rabbitmq-server "
            "haproxyctl birdc keepalived chronyc caddy traefik puppet salt chef-client ossec-control wazuh-control "
            "auditd clamdscan crowdsec fail2ban-client jetty.sh solr elasticsearch logstash kibana nagios "
            "zabbix_agentd "
            "asterisk slapd named dovecot doveadm cyrus mailman squid lighttpd-angel uwsgi gunicornctl circusctl "
            "mongod mysqld_multi mysqld_safe brew-services net-snmp iscsiadm ipvsadm pcs crm"
        ),
        "",
    ),
}
_ALSO: dict[str, str] = {
    "apachectl": r".*-k (stop|graceful-stop)",
    "apache2ctl": r".*-k (stop|graceful-stop)",
    "pg_ctl": r".*\b(kill|promote)\b",
    "mongod": r".*--shutdown",
    "mysqld_safe": r".*--skip-grant",
    "fail2ban-client": r".*\b(unban|stop|reload --unban)",
    "squid": r".*-k (shutdown|kill|interrupt)",
    "ipvsadm": r".*(-C|--clear|-D)",
    "iscsiadm": r".*(--logout|-u|delete)",
    "pcs": r".*\b(stop|destroy|standby|kill)\b",
    "crm": r".*\b(stop|standby|erase)\b",
    "asterisk": r".*(core (stop|restart)|-rx)",
    "chronyc": r".*(makestep|settime|offline)",
    "puppet": r"(agent --disable|cert clean|node (purge|clean))",
    "salt": r".*(cmd.run|state.apply|service.stop|system\.)",
    "uwsgi": r".*--stop",
    "exim": r".*-M(rm|g|f|t)",
    "postfix": r".*(abort|flush)",
    "doveadm": r".*(expunge|kick|mailbox delete)",
}
_ALSO_PATTERNS = {name: re.compile(text) for name, text in _ALSO.items()}


def controller(call: ProgramCall) -> None:
    """service, launchctl, supervisorctl, and the programs with which servers are started and stopped."""
    verbs = [word.text for word in call.parse_options().operands]
    own = _is_own(["", *verbs]) and not _ENDING.isdisjoint(verbs)
    if call.name == "loginctl" and verbs[:1] and verbs[0] in _OFF_VERBS:
        stopped(call)
    elif own:
        call.ask("kill-self", "it may end Hermes itself")
    elif _stops(call, verbs):
        call.add_effect(EffectKind.KILLS, verbs)
        call.ask("service", _STOPS)
    elif _CONTROLLERS[call.name] == "later" and _LATER_VERBS.intersection(verbs):
        call.add_effect(EffectKind.PERSISTS, verbs)
        call.ask("time", _LATER)


_ENDING = word_set("restart reload kill stop delete")


def _stops(call: ProgramCall, verbs: Sequence[str]) -> bool:
    """Whether it stops a service: by one of its first words, or by what stops it in this program alone."""
    if _STOPPING.intersection(verbs[:3]) and (call.name != "pm2" or _all_of_pm2(verbs)):
        return True
    also = _ALSO_PATTERNS.get(call.name)
    return also is not None and also.match(" ".join(call.args)) is not None


def _all_of_pm2(verbs: Sequence[str]) -> bool:
    return verbs[0] in ("kill", "delete") or "all" in verbs


def server(call: ProgramCall) -> None:
    """nginx, httpd, haproxy: a running server told to stop."""
    text = " ".join(call.args)
    if re.search(r"(-s ?(stop|quit))|(-k ?(stop|graceful-stop|shutdown))|-sf\b|-st\b|--shutdown|--stop\b", text):
        call.add_effect(EffectKind.KILLS, (call.name,))
        call.ask("service", _STOPS)


def homebrew_services(call: ProgramCall) -> None:
    """brew services stop."""
    verbs = [word.text for word in call.parse_options().operands]
    if verbs[:1] == ["services"] and verbs[1:2] and verbs[1] in ("stop", "kill", "cleanup"):
        call.ask("service", _STOPS)
    elif verbs[:1] == ["services"] and verbs[1:2] == ["start"]:
        call.add_effect(EffectKind.PERSISTS, verbs)


def stop_start(call: ProgramCall) -> ShellStream | None:
    """start-stop-daemon: stops by name, starts a program."""
    args = call.args
    if {"-K", "--stop"} & set(args):
        call.ask("service", _STOPS)
    at = next((at for at, text in enumerate(args[:-1]) if text in ("-x", "--exec", "-a", "--startas")), -1)
    if at < 0:
        return None
    rest = call.words[args.index("--") + 1 :] if "--" in args else []
    return call.judge_program([call.words[at + 1], *rest], lost=True)


def bus(call: ProgramCall) -> None:
    """dbus-send, busctl, gdbus: power off by a message."""
    text = " ".join(call.args)
    if re.search(r"PowerOff|Reboot|Halt|Suspend|Hibernate|HybridSleep|KExec", text):
        stopped(call)
    elif re.search(r"login1|systemd1|PolicyKit|Secrets|StopUnit|MaskUnit|KillUnit|Terminate|kwallet", text) and not (
        call.name == "busctl" and call.args[:1] and call.args[0] in ("list", "tree", "status", "introspect", "monitor")
    ):
        call.ask("service", "it talks to the system's service manager")


_INIT_SCRIPTS = ("/etc/init.d/", "/etc/rc.d/", "/usr/local/etc/rc.d/")


def initialised(call: ProgramCall, path: str) -> bool:
    """Whether a path is an init script's."""
    return resolve_path(path, call.cwd, call.host.places).startswith(_INIT_SCRIPTS)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("shutdown", "reboot", "poweroff", "halt"), power),
    **dict.fromkeys(("init", "telinit"), level),
    **dict.fromkeys(_POWERING, powering),
    "systemctl": systemd,
    **dict.fromkeys(_CONTROLLERS, controller),
    **dict.fromkeys(
        word_set("nginx httpd apache2 haproxy lighttpd openresty tengine sshd postmaster varnishd"), server
    ),
    "start-stop-daemon": stop_start,
    **dict.fromkeys(("dbus-send", "busctl", "gdbus"), bus),
}
