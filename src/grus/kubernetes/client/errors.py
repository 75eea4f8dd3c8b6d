"""Kubernetes API errors.

GrusError
├── Refused          it understood and said no: code, reason, text
│   ├── Missing      404  there is no such object, or no such kind
│   ├── Exists       409  an object of that name is there already
│   ├── Conflicts    409  it changed since it was read, or is not the one that was meant
│   ├── Gone         410  so old a version is not kept any more: list again
│   ├── Forbidden    401, 403
│   └── Invalid      422  the object breaks rules of its kind
└── model.Unreachable
    └── Unreachable  no answer, or only that it cannot now (429, 5xx); `arrived`: it may have been done
"""

import msgspec

from grus.model import errors


class Refused(errors.GrusError):
    """The API server refused the request."""

    code = "refused"

    def __init__(self, number: int, reason: str, text: str) -> None:
        self.number = number
        """The HTTP status."""
        self.reason = reason
        """Kubernetes' reason: `AlreadyExists`."""
        self.text = text
        super().__init__(f"the API server refused: {text} ({number} {reason})")


class Missing(Refused):
    """There is no such object."""

    code = "not_found"
    exit_code = 4
    status = 404


class Exists(Refused):
    """An object of that name is there already."""

    code = "exists"
    status = 409


class Conflicts(Refused):
    """The object is not what the caller took it for."""

    code = "conflict"
    status = 409


class Gone(Refused):
    """The requested version is not kept any more."""

    code = "gone"
    status = 410


class Forbidden(Refused):
    """These credentials do not allow it."""

    code = "not_allowed"
    exit_code = 5
    status = 403


class Invalid(Refused):
    """The object breaks rules of its kind."""

    code = "bad_input"
    exit_code = 2
    status = 422


class Unreachable(errors.Unreachable):
    """The API server does not answer, or cannot now."""

    def __init__(
        self, text: str, *, arrived: bool = False, after: float = 0.0, lasting: bool = False
    ) -> None:
        self.arrived = arrived
        """True if the request may have been carried out all the same."""
        self.after = after
        """Seconds after which the server allows a retry; 0 if not given."""
        self.lasting = lasting
        """True if a retry cannot help (a certificate that is not trusted)."""
        super().__init__(text)


_KINDS: dict[int, type[Refused]] = {
    401: Forbidden,
    403: Forbidden,
    404: Missing,
    409: Conflicts,
    410: Gone,
    422: Invalid,
}


class _Status(msgspec.Struct):
    """Fields of Kubernetes' `Status` object that are read."""

    message: str = ""
    reason: str = ""
    code: int = 0


def refusal(number: int, body: bytes) -> Refused:
    """Return the error of an answer's HTTP status and body, which proxies on the way may have written."""
    try:
        said = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:  # also of another shape
        said = _Status(message=body[:300].decode(errors="replace").strip())
    kind = Exists if said.reason == "AlreadyExists" else _KINDS.get(number, Refused)
    return kind(number, said.reason, said.message or "without a word why")
