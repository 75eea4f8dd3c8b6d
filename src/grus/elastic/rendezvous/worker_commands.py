"""Orders of the control plane to one worker, parsed from the text that it publishes. Pure.

    {"pause": false, "leave": false, "deadline": null,
     "team": {"number": 3, "members": ["10.0.0.1:4711", …], "me": 1, "broken": 2}}

A text that cannot be parsed means "continue": the file is always replaced whole, so the next text is valid.
"""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RendezvousGroup:
    """Worker group: the workers that train together. Group numbers only grow."""

    number: int
    members: tuple[str, ...]
    """Addresses of the members' stores, in the order of ranks."""
    me: int | None
    """This worker's rank; None if it is not (or no longer) a member."""
    broken: int = 0
    """Newest group that was formed because a member was lost: workers in an older group wait in vain."""


@dataclass(frozen=True, slots=True)
class Orders:
    team: RendezvousGroup | None = None
    pause: bool = False
    leave: bool = False

    @property
    def number(self) -> int:
        return self.team.number if self.team is not None else 0

    @property
    def broken(self) -> int:
        return self.team.broken if self.team is not None else 0

    @property
    def ends(self) -> bool:
        """Return whether the whole attempt is to end: it is paused, or all workers are ordered to leave."""
        return self.pause or (self.leave and self.team is not None and self.team.me is not None)


def read(text: bytes | str) -> Orders:
    try:
        said = json.loads(text)
        return Orders(_team(said.get("team")), bool(said.get("pause")), bool(said.get("leave")))
    except (ValueError, TypeError, AttributeError, KeyError):
        return Orders()


def _team(said: dict[str, object] | None) -> RendezvousGroup | None:
    if said is None:
        return None
    members, me, broken = said["members"], said.get("me"), said.get("broken", 0)
    if not isinstance(members, list) or not (me is None or isinstance(me, int)):
        raise TypeError("a team has a list of members and a rank")
    return RendezvousGroup(_whole(said["number"]), tuple(map(str, members)), me, _whole(broken))


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("a whole number is needed")
    return value
