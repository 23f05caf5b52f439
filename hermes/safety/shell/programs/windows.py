"""Programs of Windows, and the commands of PowerShell."""

import re
from collections.abc import Iterator, Sequence

from hermes.safety.shell.call import ProgramCall, Rule
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import NO_LABELS, ShellStream, Word, word_set

_CHANGES = "it changes the running system"
_PROGRAMS = word_set("""
    net net1 reg regedit vssadmin wmic bcdedit bootrec bcdboot diskpart taskkill tskill sc schtasks icacls cacls takeown
    cipher netsh wevtutil rd erase attrib certutil bitsadmin mshta regsvr32 rundll32 installutil wbadmin fsutil powercfg
    format format.com robocopy cmd manage-bde dism msiexec runas psexec psexec64 winrm winrs setx assoc ftype mountvol
    chkdsk ntdsutil procdump auditpol secedit slmgr dsrm cmdkey wusa sdelete sdelete64 vaultcmd
""")
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
        call.deny("raw-disk", "it overwrites a disk", effect=EffectKind.OVERWRITES, targets=call.args[:2])
    elif call.name in ("rd", "erase") and _deletes_root(call):
        return None
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
    """`del` and `rmdir` as Windows knows them; whether they lose folders with all that is in them."""
    wide = any(text.lower() in ("/s", "/q", "/f") for text in call.args)
    if wide and not _deletes_root(call):
        call.add_effect(EffectKind.DELETES, call.args)
        call.ask("rm-recursive", "it deletes folders with all that is in them")
    return wide


def _deletes_root(call: ProgramCall) -> bool:
    """Refuse to lose a drive, the system or a home."""
    if not any(map(_ROOT.match, call.args)):
        return False
    call.deny("rm-root", "it deletes the system, or a home", effect=EffectKind.DELETES, targets=call.args)
    return True


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
    if _HARMLESS.match(name) or (name.lower() == "remove-item" and _deletes_root(call)):
        return True
    if _STOPS_MACHINE.match(name):
        call.deny("power", "it stops the machine", effect=EffectKind.KILLS, targets=("machine",))
    elif _LOSES_DISK.match(name):
        call.deny("raw-disk", "it overwrites a disk", effect=EffectKind.OVERWRITES, targets=call.args)
    elif _TAKES.match(name) or _CHANGING.match(name):
        call.add_effect(EffectKind.ESCALATES, call.args)
        call.ask("system", "it deletes, stops or changes what the machine needs")
    else:
        return False
    return True


_VALUED = re.compile(
    r"-(ex\w*|ep|w|windowstyle|v|version|inputformat|outputformat|if|of|configurationname|config|workingdirectory|wd|"
    r"settingsfile|custompipename|psconsolefile|o|i)$",
    re.IGNORECASE,
)
_TEXT = re.compile(r"-(c|co\w*)$", re.IGNORECASE)
_FILE = re.compile(r"-f(i\w*)?$", re.IGNORECASE)
_BETWEEN = re.compile(r"[;|\n{}()]+|&&?|\$\w+\s*=(?!=)")
_NAMES = {
    **dict.fromkeys(("rm", "ri", "del", "rd", "rmdir", "erase"), "Remove-Item"),
    **dict.fromkeys(("clc", "clear-content"), "Clear-Content"),
    **dict.fromkeys(("kill", "spps"), "Stop-Process"),
    "spsv": "Stop-Service",
    "sp": "Set-ItemProperty",
    "rp": "Remove-ItemProperty",
}
"""Short names that PowerShell has from the start."""
_QUOTES = "'\""
_LOOKING = re.compile(
    r"(invoke-(webrequest|restmethod|command)|iwr|start-process|get-credential|add-type)$", re.IGNORECASE
)
"""What a program text is asked about by other rules, or does no harm in it."""
_MOST = 100


def programs(name: str, words: Sequence[Word]) -> tuple[list[Word], Word | None, list[Word]]:
    """(the program text on a command line of PowerShell, the script, what is given to that)."""
    at = 0
    while at < len(words) and words[at].text[:1] == "-":
        option = words[at].text
        at += 2 if _VALUED.match(option) else 1
        if _TEXT.match(option):
            text = _joined(words[at:])
            return ([text] if text.text != "-" else []), None, []  # a dash: the text comes by the pipe
        if _FILE.match(option):
            return [], *_parted(words[at:])
    # What stands alone is a program text to powershell, a file to pwsh.
    first = words[at].text if at < len(words) else ".ps1"
    is_text = not first.endswith(".ps1") and (name == "powershell" or "-" in first or " " in first)
    return ([_joined(words[at:])], None, []) if is_text else ([], *_parted(words[at:]))


def _parted(words: Sequence[Word]) -> tuple[Word | None, list[Word]]:
    return (words[0] if words else None), list(words[1:])


def _joined(words: Sequence[Word]) -> Word:
    labels = NO_LABELS.union(*(word.labels for word in words))
    return Word(" ".join(word.text for word in words), labels=labels)


def judge_text(call: ProgramCall, text: str) -> None:
    """Judge the commands of a text of PowerShell."""
    for words in _commands(text[:20_000]):
        name = _NAMES.get(words[0].lower(), words[0])
        inner = ProgramCall(name, [Word(one.strip(_QUOTES)) for one in words[1:]], call.state, None, call.host)
        low = name.lower().removesuffix(".exe")
        if low in RULES:
            judge(ProgramCall(low, inner.words, call.state, None, call.host))
        elif not _LOOKING.match(name):
            powershell(inner)


def _commands(text: str) -> Iterator[list[str]]:
    for piece in _BETWEEN.split(text)[:_MOST]:
        words = piece.replace("`", "").split()
        if words:
            words[0] = words[0].strip(_QUOTES)
            yield words[:40]


RULES: dict[str, Rule] = dict.fromkeys(_PROGRAMS, judge)
