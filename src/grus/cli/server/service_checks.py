"""Checks of a server as a service, for `grus doctor` and `grus service status`: unit, backups, certificate.

They look at files and ask systemd; they change nothing.
"""

import getpass
import shlex
import shutil
import stat
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

from grus.cli.server.doctor import FAIL, OK, WARN, DoctorFinding
from grus.cli.server.systemd_service import has_systemd, scope, unit_folder
from grus.cli.server.systemd_units import BACKUP, SERVER, TIMER, Schedule
from grus.model.errors import GrusError
from grus.sdk.state_paths import GrusPaths, places, running

DAY = 86400.0
STALE = 2 * DAY
"""Age of the newest backup from which on it is reported."""
SOON = 21 * DAY
"""Time before a certificate expires in which that is reported."""


def settings(unit: Path) -> dict[str, list[str]]:
    """The settings of a unit's file, each with its values in order; none if there is no such file."""
    found: dict[str, list[str]] = {}
    try:
        lines = unit.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        name, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";", "[")):
            found.setdefault(name.strip(), []).append(value.strip())
    return found


def words_of(line: str) -> list[str]:
    """The words of an ExecStart line that `systemd_units` wrote."""
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]


def facts(folder: Path) -> dict[str, str]:
    """Facts about the installed service, for people and programs."""
    unit = settings(folder / SERVER)
    found = {
        "unit": str(folder / SERVER),
        "command": " ".join(unit.get("ExecStart", [])),
        "account": " ".join(unit.get("User", [])),
        "active": ask_systemd("is-active", SERVER),
        "enabled": ask_systemd("is-enabled", SERVER),
        "backups": "none scheduled",
    }
    if (where := backup_folder(folder)) is not None:
        when = " ".join(settings(folder / TIMER).get("OnCalendar", []))
        found |= {"backups": f"{when}, in {where}", "last backup": _newest(where)[0] or "none yet"}
    return found


def ask_systemd(verb: str, unit: str) -> str:
    """The answer of `systemctl VERB UNIT`; where systemd does not run, that."""
    if not has_systemd():
        return "unknown: systemd does not run here"
    done = subprocess.run(["systemctl", *scope(), verb, unit], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def scheduled(folder: Path) -> Schedule | None:
    """The scheduled backups of the units in this folder; None without a timer."""
    if not (folder / TIMER).exists():
        return None
    line = words_of(" ".join(settings(folder / BACKUP).get("ExecStart", [])))
    if "backup" not in line[:-1]:
        return None
    found = Schedule(Path(line[line.index("backup") + 1]))
    keep = line[line.index("--keep") + 1] if "--keep" in line[:-1] else ""
    every = " ".join(settings(folder / TIMER).get("OnCalendar", []))
    return Schedule(found.folder, every or found.every, int(keep) if keep.isdecimal() else found.keep)


def backup_folder(folder: Path) -> Path | None:
    """Folder of the scheduled backups; None without a timer."""
    found = scheduled(folder)
    return found.folder if found else None


def runs_as_service(at: GrusPaths) -> bool:
    """True if systemd runs this machine and has a unit for a server of this state."""
    unit = settings(unit_folder() / SERVER)
    if not unit or not has_systemd():
        return False
    environment = _environment(unit)
    account = " ".join(unit.get("User", []))
    if "GRUS_HOME" not in environment and account not in ("", getpass.getuser()):
        return False
    return places(environment).state == at.state


def service_elsewhere(at: GrusPaths) -> str:
    """Sentence about a service that runs a server of another state; "" if there is none."""
    home = _environment(settings(unit_folder() / SERVER)).get("GRUS_HOME", "")
    state = places({"GRUS_HOME": home}).state
    return f"{SERVER} runs the server of {state}: set GRUS_HOME={home}." if home and state != at.state else ""


def installed_state(folder: Path) -> Path | None:
    """State folder of the server that the units in this folder run; None if there are none."""
    from grus.cli.server.service_options import state_of

    unit = settings(folder / SERVER)
    try:
        return state_of(" ".join(unit.get("User", [])), _environment(unit)) if unit else None
    except KeyError:  # its account is gone
        return None


def systemctl(verb: str) -> str:
    """Command that does this to the server's unit."""
    return " ".join(["systemctl", *scope(), verb, SERVER.removesuffix(".service")])


def _environment(unit: dict[str, list[str]]) -> dict[str, str]:
    pairs = (word.partition("=") for line in unit.get("Environment", []) for word in words_of(line))
    return {name: value for name, _, value in pairs}


def _newest(folder: Path) -> tuple[str, float]:
    """Name and time of the newest backup; ("", 0) if there is none."""
    from grus.server.backup.create import contents
    from grus.server.backup.rotation import backups_in

    for path in reversed(backups_in(folder)):
        try:
            made = contents(path)
        except GrusError:
            continue
        if made is not None:
            return path.name, made.at
    return "", 0.0


# ------------------------------------------------------------------------------------------------ findings


def check_service(at: GrusPaths) -> DoctorFinding:
    """The unit: does it run this installation, on this state, and leave jobs alone?"""
    folder = unit_folder()
    unit = settings(folder / SERVER)
    if not unit:
        return DoctorFinding(
            "service", OK, "none; `grus service install` makes one, which starts with the machine"
        )
    again = "grus service install, then systemctl daemon-reload"
    if unit.get("KillMode") != ["process"]:
        return DoctorFinding("service", FAIL, "KillMode is not process: a restart would end all jobs", again)
    command = words_of(" ".join(unit.get("ExecStart", [""])))
    if not command or shutil.which(command[0]) is None:
        return DoctorFinding("service", FAIL, f"its interpreter is gone: {' '.join(command[:1])}", again)
    environment = _environment(unit)
    if "GRUS_HOME" in environment and places(environment).state != at.state:
        fix = f"set GRUS_HOME={environment['GRUS_HOME']} here, or install the service again"
        return DoctorFinding(
            "service", WARN, f"it runs on {places(environment).state}, not on {at.state}", fix
        )
    if wrong := verified(folder):
        return DoctorFinding("service", WARN, f"systemd-analyze verify: {wrong}", again)
    if has_systemd() and (state := ask_systemd("is-enabled", SERVER)) != "enabled":
        return DoctorFinding(
            "service", WARN, f"{state}: it does not start with the machine", f"systemctl enable {SERVER}"
        )
    return DoctorFinding("service", OK, f"{folder / SERVER}: {ask_systemd('is-active', SERVER)}")


def verified(folder: Path) -> str:
    """Return the first problem that `systemd-analyze verify` finds; "" if there is none, or no such
    program.
    """
    program = shutil.which("systemd-analyze")
    if program is None:
        return ""
    files = [str(folder / name) for name in (SERVER, BACKUP, TIMER) if (folder / name).exists()]
    scoped = [program, *scope(), "verify", "--man=no", *files]
    done = subprocess.run(scoped, capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if any(Path(file).name in line for file in files)]
    return ours[0] if ours else ""


def check_backups(at: GrusPaths) -> DoctorFinding:
    """The scheduled backups: are there any, and is the newest one new?"""
    if not (at.state / "grus.db").exists():
        return DoctorFinding("backups", OK, "nothing to back up yet")
    where = backup_folder(unit_folder())
    if where is None and _is_shared(at):
        fix = "grus service install --backups FOLDER"
        return DoctorFinding("backups", WARN, "none scheduled, though others use this server", fix)
    if where is None:
        return DoctorFinding(
            "backups", OK, "none scheduled; `grus service install --backups FOLDER` does it daily"
        )
    name, made = _newest(where)
    fix = f"systemctl start {BACKUP}, and look at journalctl -u {BACKUP}"
    if not name:
        return DoctorFinding("backups", WARN, f"none in {where} yet", fix)
    age = time.time() - made
    if age > STALE:
        return DoctorFinding("backups", WARN, f"the newest in {where} is {age / DAY:.0f} days old", fix)
    return DoctorFinding("backups", OK, f"{name} in {where}")


def _is_shared(at: GrusPaths) -> bool:
    """True for a server with TLS or with several users."""
    from grus.server.config import load
    from grus.store.sqlite_backup import users_in

    try:
        if load(at).tls:
            return True
    except GrusError:
        pass  # the check of the configuration reports the error
    return users_in(at.state / "grus.db") > 1


def check_certificate(at: GrusPaths) -> DoctorFinding:
    """The certificate of a server with TLS: valid, for long enough, and its key private."""
    from grus.server.config import load, with_identity

    try:
        found = load(at)
    except GrusError:
        return DoctorFinding("certificate", OK, "not checked: see configuration")
    if found.key is None:
        return _without_certificate(at, found.host)
    try:
        identity = with_identity(found, time.time()).identity
    except GrusError as error:
        return DoctorFinding(
            "certificate", FAIL, str(error), "renew it, or start with another: grus up --tls-cert …"
        )
    left = (identity.expires_at if identity else 0.0) - time.time()
    if left < SOON:
        fix = "renew it, then restart the server (jobs go on)"
        return DoctorFinding("certificate", WARN, f"expires in {left / DAY:.0f} days", fix)
    if found.key.stat().st_mode & stat.S_IROTH:
        return DoctorFinding(
            "certificate", WARN, f"others can read its key {found.key}", f"chmod 600 {found.key}"
        )
    return DoctorFinding("certificate", OK, f"{found.host}, for {left / DAY:.0f} more days")


def _without_certificate(at: GrusPaths, host: str) -> DoctorFinding:
    """Warn if a server without TLS is for other machines; the running server counts, else the settings."""
    from grus.sdk.connection_errors import is_loopback

    server = running(at)
    reached = (urlsplit(server.address).hostname or "") if server else host
    if is_loopback(reached):
        return DoctorFinding("certificate", OK, "none: the server is for this machine only")
    fix = "grus down, then grus up --host NAME --tls-cert FILE --tls-key FILE"
    return DoctorFinding("certificate", WARN, f"none: tokens and jobs travel in the clear to {reached}", fix)
