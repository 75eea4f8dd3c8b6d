"""Registry checks of an image: whether it can be pulled by its digest, and pushed to, from here.

They use the registry's own HTTP API (OCI distribution) and the credentials of `docker login`. The push is
tested by starting an upload and canceling it: nothing is left there.
"""

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx2

from grus.compare.environments import Check, PreflightStatus

PATIENCE = 15.0
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PATH = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_REFERENCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Image:
    """A name such as registry.example/team/train:3, split into its parts."""

    host: str
    """Empty where the name has none: then the container runtime chooses."""
    path: str
    reference: str
    """Tag or digest."""

    @property
    def pinned(self) -> bool:
        return bool(DIGEST.fullmatch(self.reference))

    def by(self, digest: str) -> str:
        return f"{self.host}/{self.path}@{digest}" if self.host else f"{self.path}@{digest}"


def image_of(name: str) -> Image | None:
    """None if it is no name of an image."""
    first, slash, rest = name.partition("/")
    hosted = slash and ("." in first or ":" in first or first == "localhost")
    host, path = (first, rest) if hosted else ("", name)
    path, at, reference = path.partition("@")
    path, _, tag = path.partition(":")
    reference = reference if at else tag or "latest"
    sound = (DIGEST if at else _REFERENCE).fullmatch(reference)
    return Image(host, path, reference) if _PATH.fullmatch(path) and sound else None


def checks(name: str, image_id: str, *, never_pulled: bool) -> tuple[Check, Check]:
    """Pull and push; `image_id` is what the node says that it ran."""
    image = image_of(name)
    if never_pulled or image is None or not image.host:
        told = "its pods never pull" if never_pulled else "the image's name has no registry's host"
        return _without(told, never_pulled=never_pulled)
    with httpx2.Client(timeout=PATIENCE, follow_redirects=False, trust_env=True) as client:
        there = Registry(client, image)
        return _pull(there, image, image_id), _push(there)


def _without(told: str, *, never_pulled: bool) -> tuple[Check, Check]:
    """Return the checks without a registry to ask; unless that is intended, the image may change under its
    name.
    """
    push = Check(name="registry push", verdict=PreflightStatus.NOT_APPLICABLE, found=told)
    if never_pulled:
        return Check(name="registry pull", verdict=PreflightStatus.NOT_APPLICABLE, found=told), push
    fix = "write the registry's host and the digest into the image: HOST/NAME@sha256:…"
    return Check(name="registry pull", verdict=PreflightStatus.WARNING, found=told, fix=fix), push


class Failed(Exception):
    """The registry did not do it; the text says why."""


class Registry:
    """One repository of a registry."""

    def __init__(self, client: httpx2.Client, image: Image) -> None:
        self._client = client
        self._image = image
        plain = image.host.rpartition(":")[0] or image.host
        scheme = "http" if plain in _LOOPBACK else "https"
        self.root = f"{scheme}://{image.host}/v2/{image.path}/"
        self._header = ""

    def digest(self, reference: str) -> str:
        """Return the digest of the image that is pulled by this tag or digest. Raises Failed."""
        answer = self._ask("GET", f"{self.root}manifests/{reference}", {"Accept": ", ".join(MANIFESTS)})
        if answer.status_code != 200:
            raise Failed(f"{reference}: {answer.status_code} {answer.reason_phrase}")
        return f"sha256:{hashlib.sha256(answer.content).hexdigest()}"

    def try_to_push(self) -> None:
        """Begin an upload and take it back. Raises Failed."""
        answer = self._ask("POST", f"{self.root}blobs/uploads/", {})
        if answer.status_code != 202:
            raise Failed(f"{answer.status_code} {answer.reason_phrase}")
        place = urljoin(self.root, answer.headers.get("Location", ""))
        if urlsplit(place).netloc == urlsplit(self.root).netloc:
            self._ask("DELETE", place, {})

    def _ask(self, method: str, url: str, headers: Mapping[str, str]) -> httpx2.Response:
        try:
            answer = self._client.request(method, url, headers=self._with_header(headers))
            if answer.status_code == 401 and (wanted := answer.headers.get("WWW-Authenticate")):
                self._header = self._allowed(wanted)
                answer = self._client.request(method, url, headers=self._with_header(headers))
        except httpx2.HTTPError as why:
            raise Failed(f"{self._image.host} does not answer: {why}") from why
        return answer

    def _with_header(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, **({"Authorization": self._header} if self._header else {})}

    def _allowed(self, wanted: str) -> str:
        """Return the Authorization header: the stored name and password, or a token obtained with them."""
        kept = credentials(self._image.host)
        kind, _, rest = wanted.partition(" ")
        if kind.lower() != "bearer":
            return f"Basic {kept}" if kept else ""
        said = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        realm = said.pop("realm", "")
        if urlsplit(realm).scheme != "https" and urlsplit(realm).hostname not in _LOOPBACK:
            raise Failed("it sends to a place for tokens that is not encrypted")
        headers = {"Authorization": f"Basic {kept}"} if kept else {}
        answer = self._client.get(realm, params=said, headers=headers)
        try:
            found = json.loads(answer.content)
            return f"Bearer {found.get('token') or found['access_token']}"
        except (ValueError, KeyError, AttributeError):
            return ""


def credentials(host: str) -> str:
    """Name and password for a registry, in base64, from what `docker login` wrote; empty for none."""
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        found = json.loads((folder / "config.json").read_text())["auths"][host]["auth"]
        base64.b64decode(found, validate=True)
    except (OSError, ValueError, KeyError, TypeError, binascii.Error):
        return ""
    return str(found)


def _pull(there: Registry, image: Image, image_id: str) -> Check:
    name = "registry pull"
    try:
        digest = there.digest(image.reference)
        there.digest(digest)
    except Failed as why:
        fix = "nodes may still have the image; see that it is pushed, and log in: docker login HOST"
        return Check(name=name, verdict=PreflightStatus.WARNING, found=str(why), fix=fix)
    pin = f"write image: {image.by(digest)}"
    ran = DIGEST.search(image_id)
    if ran and ran[0] != digest and not image.pinned:
        told = f"{image.reference} is {digest} now, but the node ran {ran[0]}"
        return Check(name=name, verdict=PreflightStatus.WARNING, found=told, fix=pin)
    if not image.pinned:
        told = f"{digest}, by a tag that may change between two runs"
        return Check(name=name, verdict=PreflightStatus.WARNING, found=told, fix=pin)
    return Check(name=name, verdict=PreflightStatus.OK, found=digest)


def _push(there: Registry) -> Check:
    try:
        there.try_to_push()
    except Failed as why:
        fix = "only needed to change the image: log in (docker login HOST), or ask its owner"
        return Check(name="registry push", verdict=PreflightStatus.WARNING, found=str(why), fix=fix)
    told = "an upload was begun and taken back"
    return Check(name="registry push", verdict=PreflightStatus.OK, found=told)
