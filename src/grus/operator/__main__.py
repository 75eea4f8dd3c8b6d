"""A controller without the HTTP interface: `python -m grus.operator --kubeconfig FILE`. For tests and
benchmarks.

`grus kubernetes controller` is the same with it.
"""

import argparse
import json
import logging
import sys
from pathlib import Path

from grus.kubernetes.client.api import Api
from grus.operator.leader_lifecycle import Brake, lead, on_signals
from grus.operator.options import SYSTEM, Options


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m grus.operator")
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--namespace", default=SYSTEM)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--image", default="localhost/grus:1")
    parser.add_argument("--resource", default="nvidia.com/gpu")
    parser.add_argument("--identity", default="")
    parser.add_argument("--lease", type=int, default=15)
    parser.add_argument("--renew", type=float, default=5.0)
    parser.add_argument("--start-timeout", type=float, default=600.0)
    parser.add_argument("--template", type=Path, help="a file with part of a pod, for every worker")
    parser.add_argument("--allow-pod-field", action="append", default=[])
    parser.add_argument("--connections", type=int, default=16)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options = Options(
        state=given.state,
        image=given.image,
        namespace=given.namespace,
        resource=given.resource,
        identity=given.identity,
        lease=given.lease,
        renew=given.renew,
        start_timeout=given.start_timeout,
        template=json.loads(given.template.read_text()) if given.template else {},
        allowed_pod_fields=tuple(given.allow_pod_field),
    )
    brake = Brake()
    on_signals(brake)
    return lead(Api.connect(given.kubeconfig, connections=given.connections), options, brake)


if __name__ == "__main__":
    sys.exit(main())
