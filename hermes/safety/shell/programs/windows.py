"""Programs of Windows, and the commands of PowerShell."""

import re
from collections.abc import Callable

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import ShellStream, word_set

Rule = Callable[[ProgramCall], ShellStream | None]
_CHANGES = "it changes the running system"
_PROGRAMS = word_set(
    """
    net net1 reg regedit vssadmin wmic bcdedit bootrec bcdboot diskpart taskkill tskill sc schtasks icacls cacls takeown
    cipher netsh wevtutil rd erase attrib certutil bitsadmin mshta regsvr32 rundll32 installutil wbadmin fsutil powercfg
    format format.com robocopy cmd manage-bde dism msiexec runas psexec psexec64 winrm winrs setx assoc ftype mountvol
    chkdsk ntdsutil procdump auditpol secedit slmgr dsrm cmdkey wusa sdelete sdelete64 vaultcmd
    """
)
_HARMFUL = re.compile(
    r"\b(delete|add|import|restore|load|save|stop|share|call|create|terminate|resize|config|change|failure|set\w*|reset|"
    r"off|invoke|disable\S*|remove|apply|quickconfig|cl|clear\S*|sl|lsass|user \S+ \S+|del|rd|rmdir|format|shutdown|"
    r"powershell|dirty|usn|hardlink)\b|[-/](delete|add|active|s|w|grant|reset|remove|setowner|deny|[gpde]|urlcache|decode|"
    r"addstore|delstore|encode|transfer|create|addfile|mir|purge|mov|x|uninstall|i|user|savecred|m|f|r|z|change|end|"
    r"clear|set|configure|import|upk|rearm|generic|off|lock|protectors)\b|[+=]|^\w:|-[a-z]\b"
)
"""What of the words of such a program, in lower case, changes something."""
_ALWAYS = word_set(
    "diskpart taskkill tskill takeown mshta regsvr32 rundll32 bootrec bcdboot psexec psexec64 runas sdelete"
)


_ROOT = re.compile(
    r"^[\"']?([a-z]:[\\/]?(\*(\.\*)?)?|[a-z]:[\\/](windows|users|program files( \(x86\))?|programdata|system32|boot|"
    r"recovery|efi)([\\/](\*(\.\*)?|system32.*)?)?|%(systemroot|systemdrive|windir|userprofile|homepath|homedrive|"
    r"programfiles|programdata|appdata)%([\\/]?(\*(\.\*)?)?|[\\/]system32.*)|\$env:(systemroot|userprofile|systemdrive|windir|"
    r"homepath|programfiles)([\\/]\*?)?)[\"']?$",
    re.IGNORECASE,
)


def judge(call: ProgramCall) -> ShellStream | None:
    """net, reg, vssadmin, wmic, cmd, format and their like."""
    text = " ".join(call.args)
    lower = text.lower()
    if lower in ("/?", "-?", "/help", "--help"):
        return None
    if call.name == "cmd":
        return _inner(call)
    given = call.stdin.text if call.fed else None
    if _loses_disk(call.name, lower, given):
        call.add_effect(EffectKind.OVERWRITES, call.args[:2])
        call.deny("raw-disk", "it overwrites a disk")
    elif call.name in ("rd", "erase") and any(map(_ROOT.match, call.args)):
        call.deny("rm-root", "it deletes the system, or a home")
    elif call.name in _ALWAYS or _HARMFUL.search(lower):
        call.add_effect(EffectKind.ESCALATES, call.args[:2])
        call.ask("privilege" if call.name in ("runas", "psexec") else "system", _CHANGES)
    return None


def _inner(call: ProgramCall) -> ShellStream | None:
    """What `cmd /c` starts, as far as its words look like a command of its own."""
    at = next((place for place, text in enumerate(call.args) if text.lower() in ("/c", "/k")), -1)
    rest = call.words[at + 1 :] if at >= 0 else ()
    if len(rest) > 1:
        return call.judge_program(rest, lost=True)
    return call.judge_script(rest[0].text.replace("\\", "\\\\"), lost=True) if rest else None


def _loses_disk(name: str, lower: str, given: str | None) -> bool:
    if name in ("format", "format.com"):
        return re.search(r"(^| )[a-z]:( |$|/)", lower) is not None
    if name == "diskpart":
        return given is not None and re.search(r"\b(clean|format|delete)\b", given.lower()) is not None
    return name == "cipher" and re.search(r"/w:[a-z]:\\?$", lower) is not None


def deleted(call: ProgramCall) -> bool:
    """`del` and `rmdir` as Windows knows them; whether they lose a drive, the system or a home."""
    wide = any(text.lower() in ("/s", "/q", "/f") for text in call.args)
    if wide and any(map(_ROOT.match, call.args)):
        call.add_effect(EffectKind.DELETES, call.args)
        call.deny("rm-root", "it deletes the system, or a home")
        return True
    if wide:
        call.add_effect(EffectKind.DELETES, call.args)
        call.ask("rm-recursive", "it deletes folders with all that is in them")
        return True
    return False


_TAKES = re.compile(
    r"(remove|clear|stop|disable|uninstall|format|reset|restart|unregister|revoke|dismount|initialize|suspend|repair|"
    r"lock|block|deny|undo|exit)-[a-z]+$",
    re.IGNORECASE,
)
_STOPS_MACHINE = re.compile(r"(stop|restart|suspend)-computer$", re.IGNORECASE)
_LOSES_DISK = re.compile(
    r"(format-volume|clear-disk|initialize-disk|remove-partition|reset-physicaldisk)$", re.IGNORECASE
)
_CHANGING = re.compile(
    r"set-(executionpolicy|mppreference|service|itemproperty|netfirewall\w+|localuser|acl|smbserverconfiguration|"
    r"processmitigation|psreadlineoption|dnsclient\w*|netconnectionprofile|aduser|ad\w+|vm\w*)|"
    r"add-(mppreference|localgroupmember|adgroupmember|type|appxpackage|windowsfeature)|"
    r"new-(localuser|service|netfirewallrule|scheduledtask\w*|psdrive|smbshare|itemproperty|aduser|psession)|"
    r"register-(scheduledtask|scheduledjob|wmievent|objectevent)|enable-(psremoting|localuser|windowsoptionalfeature)|"
    r"invoke-(expression|command|webrequest|restmethod|cimmethod|wmimethod|mimikatz)|iex|iwr|"
    r"start-(process|bitstransfer|service)|disable-\w+|install-(package|module|script)|get-credential|convertto-securestring|"
    r"export-(pfxcertificate|certificate)|save-\w+password\w*|grant-\w+|unblock-file|import-certificate$",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"(format-(table|list|wide|custom|hex|xml)|remove-(module|job|pssession|event|typedata)|stop-job|lock-computer|"
    r"clear-host|clear-variable|stop-transcript|remove-variable|remove-alias|exit-pssession)$",
    re.IGNORECASE,
)


def powershell(call: ProgramCall) -> bool:
    """Judge a command of PowerShell by its verb; whether its name is one."""
    name = call.name
    if "-" not in name[1:] and name.lower() not in ("iex", "iwr"):
        return False
    if _HARMLESS.match(name):
        return True
    if _STOPS_MACHINE.match(name):
        call.add_effect(EffectKind.KILLS, ("machine",))
        call.deny("power", "it stops the machine")
    elif _LOSES_DISK.match(name):
        call.add_effect(EffectKind.OVERWRITES, call.args)
        call.deny("raw-disk", "it overwrites a disk")
    elif name.lower() == "remove-item" and any(map(_ROOT.match, call.args)):
        call.deny("rm-root", "it deletes the system, or a home")
    elif _TAKES.match(name) or _CHANGING.match(name):
        call.add_effect(EffectKind.ESCALATES, call.args)
        call.ask("system", "it deletes, stops or changes what the machine needs")
    else:
        return False
    return True


RULES: dict[str, Rule] = dict.fromkeys(_PROGRAMS, judge)
