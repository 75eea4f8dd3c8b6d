"""Durable position of one receiver in the event log: a small JSON file, replaced whole and fsynced."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from grus.controlplane.event_log import last_seq
from grus.model.errors import StoreFailed
from grus.model.interfaces import Store
from grus.store.durable_files import write_secret


@dataclass(frozen=True, slots=True)
class Position:
    """The last event that the receiver needs no more."""

    seq: int
    at: float = 0.0
    """Time of that event, by which a restored log is recognized; 0 if it is not known."""


class Cursor:
    """The file of one receiver."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Position | None:
        """None if there is no file yet. Raises StoreFailed for one that cannot be read."""
        try:
            found = json.loads(self._path.read_bytes())
            return Position(int(found["seq"]), float(found["at"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreFailed(
                f"cannot read {self._path} ({error}); remove it to continue with the next event"
            ) from error

    def save(self, position: Position) -> None:
        """Save the position; return when it is durable."""
        write_secret(self._path, json.dumps(asdict(position)).encode())


def starting_position(store: Store, known: Position | None) -> Position:
    """The position to continue from: the end of the log for a new receiver, or if the log was replaced."""
    last = last_seq(store)
    if known is None or known.seq > last:
        return Position(last)
    first = store.events(after=known.seq - 1, limit=1)
    if known.at and first and first[0].seq == known.seq and first[0].at != known.at:
        return Position(last)
    return known
