"""The server as `grus up --foreground` starts it, but that it prunes every so many seconds, not every hour.

`python -m tests.trust.load_server SECONDS`; the rest is in its config.toml.
"""

import sys
from functools import partial

from grus.controlplane.settings import Settings
from grus.dashboard.mounting import mount
from grus.sdk.state_paths import places
from grus.server import main
from grus.server.config import load

if __name__ == "__main__":
    sooner = partial(Settings, retention_interval=float(sys.argv[1]))
    setattr(main, "Settings", sooner)  # noqa: B010 - the one thing that is other than people's
    sys.exit(main.serve(load(places()), mount))
