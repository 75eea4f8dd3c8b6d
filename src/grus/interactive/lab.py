"""JupyterLab session: started with settings of its own, watched, and ended in order.

Its settings are in a folder that only its user reads and that is removed with it, so that its secret is on no
command line. Users' own preferences (themes, shortcuts) stay where they always are.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from grus.interactive.session import Ending, Relay, Seat, SessionReporter

MISSING = (
    "JupyterLab is not installed for {python}. Install it there with `pip install jupyterlab`, or take a "
    "shell: `grus dev --shell`."
)
LONGEST_START = 90.0
"""Seconds until JupyterLab must have reported its address."""
LOOK = 0.2
EVERY = 5.0
"""Seconds between two looks at what is going on in it."""
LAST = 10.0
"""Seconds for it to end its kernels, within the grace period of the job."""
QUICK = 5.0
"""Seconds that it has for an answer."""
SETTINGS = """import json
for section, values in json.loads({}).items():
    c[section].update(values)
# The secret is between Grus and this server: no page tells it to a browser.
c.ServerApp.tornado_settings = {{"page_config_hook": lambda handler, page: {{**page, "token": ""}}}}
"""
EXTENSIONS = Path(__file__).with_name("labextension")
"""Extension that shows Grus's messages inside JupyterLab."""


def run(seat: Seat, ending: Ending, python: str) -> int:
    """Run the JupyterLab of this interpreter until it is
    asked to end, or ends by itself; return the exit code.
    """
    found = shutil.which(python)
    if found is None or not _has_lab(found):
        print(MISSING.format(python=found or python), file=sys.stderr, flush=True)  # noqa: T201 - the job's log
        return 1
    with tempfile.TemporaryDirectory(prefix="grus-session-") as name:
        folder = Path(name)
        process = _started(seat, folder, found)
        try:
            return _watched(Lab(seat, folder, process), ending)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(LAST)
            if process.poll() is None:
                process.kill()


def _has_lab(python: str) -> bool:
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('jupyterlab') is None)"
    return subprocess.run([python, "-c", look], check=False).returncode == 0


def _started(seat: Seat, folder: Path, python: str) -> "subprocess.Popen[bytes]":
    for name in ("config", "runtime"):
        (folder / name).mkdir()
    file = folder / "config" / "jupyter_server_config.py"
    file.write_text(SETTINGS.format(json.dumps(json.dumps(settings(seat, os.getcwd())))))
    command = [python, "-m", "jupyterlab", "--no-browser", f"--config={file}"]
    return subprocess.Popen(command, env=environment(dict(os.environ), folder))


def settings(seat: Seat, root: str) -> dict[str, Any]:
    """Return the settings of JupyterLab."""
    extensions = {"extra_labextensions_path": [str(EXTENSIONS)]}
    return {
        "ServerApp": {
            "ip": seat.host,
            "port": 0,
            "base_url": seat.base,
            "root_dir": root,
            "open_browser": False,
            "allow_root": True,  # the job's user was decided elsewhere
            "allow_remote_access": False,
            "trust_xheaders": False,
        },
        "IdentityProvider": {"token": seat.secret},
        "LabApp": {
            **extensions,
            "news_url": None,
            "check_for_updates_class": "jupyterlab.handlers.announcements.NeverCheckForUpdate",
        },
        "LabServerApp": extensions,
    }


def environment(own: dict[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of JupyterLab and its kernels."""
    home = Path(own.get("HOME", "/")) / ".jupyter" / "lab"
    found = Relay(folder).environment(own)
    found.update(
        JUPYTER_CONFIG_DIR=str(folder / "config"),
        JUPYTER_RUNTIME_DIR=str(folder / "runtime"),
    )
    found.setdefault("JUPYTERLAB_SETTINGS_DIR", str(home / "user-settings"))
    found.setdefault("JUPYTERLAB_WORKSPACES_DIR", str(home / "workspaces"))
    return found


class Lab:
    """A JupyterLab that runs."""

    def __init__(self, seat: Seat, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self.seat = seat
        self._folder = folder
        self._process = process
        self._port = 0
        self.relay = Relay(folder)

    @property
    def code(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._process.poll()

    def port(self) -> int:
        """Return its port; 0 until it has reported one."""
        for file in () if self._port else (self._folder / "runtime").glob("jpserver-*.json"):
            with suppress(OSError, ValueError, KeyError):  # it is being written
                self._port = int(json.loads(file.read_text())["port"])
        return self._port

    def answers(self) -> bool:
        with suppress(OSError, ValueError):
            return self.port() > 0 and "version" in self._ask("api")
        return False

    def used_at(self) -> float:
        """Return the time of the last work in a kernel, a terminal or an open notebook; 0.0 if never."""
        times = [0.0]
        with suppress(OSError, ValueError):
            for kernel in self._ask("api/kernels"):
                busy = kernel.get("execution_state") == "busy"
                times.append(time.time() if busy else moment(kernel.get("last_activity")))
            times += [moment(one.get("last_activity")) for one in self._ask("api/terminals")]
            times += [_saved_at(str(one.get("path", ""))) for one in self._ask("api/sessions")]
        return max(times)

    def _ask(self, path: str) -> Any:
        url = f"http://{self.seat.host}:{self._port}{self.seat.base}{path}?no_track_activity=1"
        headers = {"Authorization": f"token {self.seat.secret}"}
        asked = urllib.request.Request(url, headers=headers)
        with _DIRECT.open(asked, timeout=QUICK) as answer:
            return json.loads(answer.read())


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Proxies of the environment are for the world, not for this machine."""


def _watched(lab: Lab, ending: Ending) -> int:
    began = time.monotonic()
    while not lab.answers():
        if lab.code is not None:
            print("JupyterLab did not start; its own words are above.", file=sys.stderr)  # noqa: T201 - the log
            return lab.code or 1
        if time.monotonic() > began + LONGEST_START:
            print(f"JupyterLab was not ready within {LONGEST_START:g} s.", file=sys.stderr)  # noqa: T201 - the log
            return 1
        if ending.asked.wait(LOOK):
            return 0
    teller, opened = SessionReporter(lab.seat), time.time()
    while lab.code is None and not ending.asked.is_set():
        teller.tell(lab.port(), max(opened, lab.used_at()))
        lab.relay.pass_on()
        ending.asked.wait(EVERY)
    return lab.code or 0


def moment(text: object) -> float:
    """Unix time of what Jupyter writes; 0.0 for what is none."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def _saved_at(path: str) -> float:
    """Return the time of an open notebook's last save; its path is relative to the session's first folder."""
    with suppress(OSError):
        return os.stat(path).st_mtime
    return 0.0
