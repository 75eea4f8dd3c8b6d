"""Cluster address and credentials: kubeconfig files, or the service account of a pod.

`access` reads them once. Tokens that rotate (files that the kubelet rewrites, programs that fetch a new one)
are read again when the API server rejects the old one.
"""

import base64
import json
import os
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import yaml
from lightkube import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User, UserExec
from lightkube.core.exceptions import ConfigError

from grus.kubernetes.client.errors import Unreachable

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PLUGIN_PATIENCE = 60.0
"""Seconds that a credential program may take: some open a browser."""
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


class Credential(Protocol):
    """Identity of this client. Any thread may use it."""

    def header(self) -> str:
        """The Authorization header; empty for none."""

    def renew(self, refused: str) -> bool:
        """Renew after the server rejected `refused`; return whether the header is a different one now."""


@dataclass(frozen=True, slots=True)
class Access:
    """All that is needed to talk to an API server."""

    server: str
    namespace: str
    trust: ssl.SSLContext | None
    """None for http."""
    credential: Credential


def access(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """Return the access by this file; without one by KUBECONFIG, ~/.kube/config or the service account.

    The first of them that exists is used. Without a context, the current one applies.
    """
    try:
        config = _config(kubeconfig).get(context)
        assert config is not None, "lightkube raises where there is no context"
        return _access(config)
    except (ConfigError, OSError, ValueError, KeyError, msgspec.MsgspecError, yaml.YAMLError) as why:
        raise Unreachable(f"no cluster can be reached with what is configured: {why}", lasting=True) from why


def _config(kubeconfig: Path | None) -> KubeConfig:
    if kubeconfig is not None:
        return _of_files([kubeconfig])
    if named := os.environ.get("KUBECONFIG"):
        return _of_files([Path(one) for one in named.split(os.pathsep) if one])
    usual = Path("~/.kube/config").expanduser()
    if usual.is_file():
        return _of_files([usual])
    if not (SERVICE_ACCOUNT / "token").is_file():
        raise ConfigError(f"there is neither KUBECONFIG nor {usual}, and this is no pod of a cluster")
    return KubeConfig.from_service_account(SERVICE_ACCOUNT)


def _of_files(files: Sequence[Path]) -> KubeConfig:
    """Merge several files, as kubectl does: for each name the earlier file takes precedence."""
    there = [file for file in files if file.is_file()]
    if not there:
        raise ConfigError(f"there is no file {' or '.join(str(file) for file in files)}")
    whole: dict[str, Any] = {"clusters": [], "contexts": [], "users": []}
    for file in there:
        content = yaml.safe_load(file.read_text())
        if not isinstance(content, dict):
            raise ConfigError(f"{file} is no kubeconfig")
        if "current-context" not in whole and content.get("current-context"):
            whole["current-context"] = content["current-context"]
        for part in ("clusters", "contexts", "users"):
            known = {one["name"] for one in whole[part]}
            found = [one for one in content.get(part) or [] if one["name"] not in known]
            whole[part] += [_absolute(one, file.parent) for one in found]
    return KubeConfig.from_dict(whole, fname=there[0])


def _absolute(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    return {
        key: _with_paths(value, folder) if key in ("cluster", "user") else value
        for key, value in entry.items()
    }


def _with_paths(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    return {key: str(folder / value) if key in _FILES else value for key, value in (content or {}).items()}


def _access(config: SingleConfig) -> Access:
    user = config.user or User()
    server = config.cluster.server.rstrip("/")
    trust = _trust(config.cluster) if server.startswith("https") else None
    if trust is not None:
        _show_certificate(trust, user)
    return Access(server, config.namespace, trust, _credential(user, trust))


def _trust(cluster: Cluster) -> ssl.SSLContext:
    if cluster.certificate_auth:
        return ssl.create_default_context(cafile=cluster.certificate_auth)
    if cluster.certificate_auth_data:
        return ssl.create_default_context(cadata=_decoded(cluster.certificate_auth_data))
    context = ssl.create_default_context()
    if cluster.insecure:  # set by the user in the kubeconfig
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _show_certificate(trust: ssl.SSLContext, user: User) -> None:
    certificate = _decoded(user.client_cert_data) if user.client_cert_data else _text(user.client_cert)
    key = _decoded(user.client_key_data) if user.client_key_data else _text(user.client_key)
    if certificate:
        _load(trust, certificate, key)


def _text(file: str | None) -> str:
    return Path(file).read_text() if file else ""


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()


def _load(trust: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a client certificate and its key.

    OpenSSL reads them from a file only: one that no other user can open, removed at once.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{certificate}\n{key}\n")
        file.flush()
        trust.load_cert_chain(file.name)


def _credential(user: User, trust: ssl.SSLContext | None) -> Credential:
    if user.token_file:
        return TokenFile(Path(user.token_file))
    if user.token:
        return Fixed(f"Bearer {user.token}")
    if user.exec:
        return Plugin(user.exec, trust)
    if user.username and user.password:
        return Fixed("Basic " + base64.b64encode(f"{user.username}:{user.password}".encode()).decode())
    return Fixed("")


@dataclass(frozen=True, slots=True)
class Fixed:
    """A header that never changes."""

    value: str

    def header(self) -> str:
        return self.value

    def renew(self, refused: str) -> bool:  # noqa: ARG002  # nothing newer can be had
        return False


class TokenFile:
    """Token file that another program rewrites before the token expires."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._value = self._read()

    def header(self) -> str:
        return self._value

    def renew(self, refused: str) -> bool:
        self._value = self._read()
        return self._value != refused

    def _read(self) -> str:
        return f"Bearer {self._file.read_text().strip()}"


class Plugin:
    """A program of the kubeconfig that prints a token, or a certificate."""

    def __init__(self, program: UserExec, trust: ssl.SSLContext | None) -> None:
        self._program = program
        self._trust = trust
        self._lock = threading.Lock()
        self._value: str | None = None

    def header(self) -> str:
        with self._lock:
            if self._value is None:
                self._value = self._fetch()
            return self._value

    def renew(self, refused: str) -> bool:
        with self._lock:
            if self._value == refused:  # otherwise another thread was first
                self._value = self._fetch()
            return self._value != refused

    def _fetch(self) -> str:
        """Return the program's current token; its certificate is used on new connections."""
        status = self._run()["status"]
        if self._trust is not None and status.get("clientCertificateData"):
            _load(self._trust, status["clientCertificateData"], status.get("clientKeyData") or "")
        token = status.get("token") or ""
        return f"Bearer {token}" if token else ""

    def _run(self) -> dict[str, Any]:
        program = self._program
        asked = {"apiVersion": program.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
        surroundings = os.environ | dict(_pairs(program)) | {"KUBERNETES_EXEC_INFO": json.dumps(asked)}
        words = [program.command, *(program.args or ())]
        try:
            done = subprocess.run(
                words, env=surroundings, capture_output=True, check=True, timeout=PLUGIN_PATIENCE
            )
            said: dict[str, Any] = json.loads(done.stdout)
            return said
        except FileNotFoundError as why:
            hint = f"; {program.installHint}" if program.installHint else ""
            raise Unreachable(
                f"the credential program {program.command} is not there{hint}", lasting=True
            ) from why
        except subprocess.CalledProcessError as why:
            told = why.stderr.decode(errors="replace").strip()
            raise Unreachable(
                f"the credential program {program.command} failed: {told}", lasting=True
            ) from why
        except (OSError, ValueError, subprocess.TimeoutExpired) as why:
            raise Unreachable(
                f"the credential program {program.command} failed: {why}", lasting=True
            ) from why


def _pairs(program: UserExec) -> Iterable[tuple[str, str]]:
    return ((one.name, one.value) for one in program.env or ())
