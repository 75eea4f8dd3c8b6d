"""A server on four virtual GPUs, on a free port, for the state that GRUS_HOME names: `python -m` this."""

import sys

from grus.model.errors import GrusError
from grus.sdk.state_paths import places
from grus.server.config import load
from grus.server.main import serve

if __name__ == "__main__":
    try:
        sys.exit(serve(load(places(), port=0, pool="virtual 1x4x4GB")))
    except GrusError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
