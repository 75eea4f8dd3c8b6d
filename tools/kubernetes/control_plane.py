"""The control plane of a test cluster: etcd, the API server and, unless left out, controllers and scheduler.

One key and one certificate serve for everything, and one token is allowed everything: the cluster can be
reached from this machine only and is thrown away. What a test wants to see forbidden it tries as a service
account.
"""

import base64
import json
import os
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.kubernetes.processes import Processes
from tools.kubernetes.settings import Settings, environment, need
from tools.kubernetes.versions import release_of, without_ports

CONTROLLERS, SCHEDULER = "kube-controller-manager", "kube-scheduler"
A_POD = {"metadata": {"name": "trial"}, "spec": {"containers": [{"name": "trial", "image": "trial"}]}}


@dataclass(frozen=True, slots=True)
class Access:
    """How the API server is asked, with nothing but the standard library."""

    address: str
    token: str
    certificate: str

    @classmethod
    def of(cls, settings: Settings) -> "Access":
        keys = settings.folder / "keys"
        token = (keys / "tokens.csv").read_text().split(",")[0]
        address = f"https://{settings.host}:{settings.port}"
        return cls(address, token, (keys / "server.crt").read_text())

    def ask(self, path: str, body: Mapping[str, object] | None = None) -> str | None:
        """What it answers, or None if it does not, or refuses."""
        request = urllib.request.Request(
            self.address + path,
            data=json.dumps(body).encode() if body else None,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        trust = urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=self.certificate))
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), trust)
        try:
            with direct.open(request, timeout=5) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return None


def start(settings: Settings) -> None:
    need("openssl")
    make_keys(settings)
    write_kubeconfig(settings)
    processes = Processes(settings.folder)
    surroundings = environment(settings.programs)
    access = Access.of(settings)
    processes.start("etcd", etcd(settings), surroundings)
    processes.start("kube-apiserver", api_server(settings), surroundings)
    processes.wait("kube-apiserver", lambda: access.ask("/readyz") is not None, 180)
    if runs(settings, CONTROLLERS):
        processes.start(CONTROLLERS, controller_manager(settings), surroundings)
        # A pod is refused until the controllers have given its namespace a service account.
        pods = "/api/v1/namespaces/default/pods?dryRun=All"
        processes.wait(CONTROLLERS, lambda: access.ask(pods, A_POD) is not None, 120)
    if runs(settings, SCHEDULER):
        processes.start(SCHEDULER, scheduler(settings), surroundings)


def runs(settings: Settings, program: str) -> bool:
    """Unless it is left out; prebuilt programs often hold neither controllers nor scheduler."""
    return program not in settings.without and Path(settings.programs, program).exists()


def make_keys(settings: Settings) -> None:
    keys = settings.folder / "keys"
    if (keys / "tokens.csv").exists():
        return
    keys.mkdir(mode=0o700, exist_ok=True)
    names = ["IP:127.0.0.1", f"IP:{settings.host}", "DNS:localhost"]
    names += ["DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += [
        "-days",
        "3650",
        "-subj",
        "/CN=grus-test-cluster",
        "-addext",
        f"subjectAltName={','.join(names)}",
    ]
    command += [
        "-addext",
        "keyUsage=critical,digitalSignature,keyCertSign",
        "-addext",
        "extendedKeyUsage=serverAuth",
    ]
    subprocess.run(
        [*command, "-keyout", keys / "server.key", "-out", keys / "server.crt"],
        capture_output=True,
        check=True,
    )
    (keys / "tokens.csv").write_text(f"{secrets.token_hex(16)},admin,admin,system:masters\n")


def write_kubeconfig(settings: Settings) -> None:
    """Whole in itself, so that it can be copied; JSON is YAML."""
    access = Access.of(settings)
    authority = base64.b64encode(access.certificate.encode()).decode()
    name = f"grus-{settings.name}"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": access.address, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "admin", "user": {"token": access.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
        "current-context": name,
    }
    opened = os.open(settings.kubeconfig, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(opened, "w") as file:
        json.dump(content, file, indent=1)


def etcd(settings: Settings) -> Sequence[str]:
    _, clients, peers = (f"http://127.0.0.1:{port}" for port in settings.ports)
    command = [f"{settings.programs}/etcd", "--name=etcd", f"--data-dir={settings.folder}/etcd"]
    command += [f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"]
    command += [f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"]
    command += [f"--initial-cluster=etcd={peers}", "--log-level=error", "--logger=zap"]
    return [*command, "--unsafe-no-fsync", *settings.more("etcd")]  # nothing here has to survive a power cut


def api_server(settings: Settings) -> Sequence[str]:
    keys = settings.folder / "keys"
    command = [f"{settings.programs}/kube-apiserver", f"--etcd-servers=http://127.0.0.1:{settings.ports[1]}"]
    command += [f"--bind-address={settings.host}", f"--advertise-address={settings.host}"]
    command += [f"--secure-port={settings.port}", f"--service-cluster-ip-range={settings.net}.255.0/24"]
    command += [f"--tls-cert-file={keys}/server.crt", f"--tls-private-key-file={keys}/server.key"]
    command += [
        f"--token-auth-file={keys}/tokens.csv",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
    ]
    command += ["--service-account-issuer=https://kubernetes.default.svc"]
    command += [f"--service-account-signing-key-file={keys}/server.key"]
    command += [f"--service-account-key-file={keys}/server.crt", f"--cert-dir={keys}"]
    command += ["--endpoint-reconciler-type=none", "--kubelet-preferred-address-types=InternalIP"]
    if not runs(settings, CONTROLLERS):
        # Nobody would make the service accounts that this plugin asks for.
        command += ["--disable-admission-plugins=ServiceAccount"]
    return [*command, *settings.more("kube-apiserver")]


def controller_manager(settings: Settings) -> Sequence[str]:
    keys = settings.folder / "keys"
    command = [*client_of(settings, CONTROLLERS), f"--root-ca-file={keys}/server.crt"]
    command += [f"--service-account-private-key-file={keys}/server.key"]
    if not settings.nodes:
        # Pretend nodes have nobody who reports for them; they would be given up after 40 s.
        command += ["--controllers=*,-nodelifecycle"]
    return [*command, *settings.more(CONTROLLERS)]


def scheduler(settings: Settings) -> Sequence[str]:
    return [*client_of(settings, SCHEDULER), *settings.more(SCHEDULER)]


def client_of(settings: Settings, program: str) -> Sequence[str]:
    """Neither serves anything, since nobody asks after its health."""
    command = [
        f"{settings.programs}/{program}",
        f"--kubeconfig={settings.kubeconfig}",
        "--leader-elect=false",
    ]
    return [*command, *without_ports(release_of(Path(command[0])))]
