"""What a controller tells those who ask whether it is alive and whether it leads."""

import urllib.error
import urllib.request

from grus.controlplane.reconciler.health import ControlLoopHealth
from grus.server.runtime.health import ServerHealth
from grus.server.runtime.kubernetes_operator import Probes, allowed_pod_fields


def asked(probes: Probes, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{probes.port}{path}", timeout=300) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.code


def test_one_that_waits_is_alive_one_that_leads_is_ready_one_that_cannot_act_is_neither() -> None:
    probes = Probes(("127.0.0.1", 0))
    try:
        assert (asked(probes, "/livez"), asked(probes, "/readyz")) == (200, 503)
        pulse = ControlLoopHealth(epoch=1)
        probes.health = ServerHealth(pulse)
        assert (asked(probes, "/livez"), asked(probes, "/readyz")) == (200, 200)
        pulse.stopped = "another one leads"
        assert (asked(probes, "/livez"), asked(probes, "/readyz")) == (500, 503)
        assert asked(probes, "/else") == 404
    finally:
        probes.close()


def test_a_loop_that_stands_still_is_not_alive() -> None:
    now = [0.0]
    probes = Probes(("127.0.0.1", 0))
    try:
        probes.health = ServerHealth(ControlLoopHealth(epoch=1), clock=lambda: now[0])
        now[0] = 1000.0
        assert probes.answer("/livez")[0] == 500
    finally:
        probes.close()


def test_allowed_pod_fields_have_commas_or_spaces_between_and_none_is_nothing() -> None:
    assert allowed_pod_fields("none") == ()
    assert allowed_pod_fields("") == ()
    assert allowed_pod_fields("spec.tolerations, vision:spec.volumes.nfs") == (
        "spec.tolerations",
        "vision:spec.volumes.nfs",
    )
