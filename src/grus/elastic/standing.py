"""How far a worker is, and everything that this consists of; and how a new team gets level.

The most advanced member gives its state to the rest of the team. Whoever is new is nowhere until it has all
of it: half a state must never look like a whole one, not even if the giver dies in the middle. Whoever has a
state already keeps it until it has all of the other one.
"""

import json
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from grus.elastic import state
from grus.elastic.arguments import Arguments
from grus.elastic.batch_size import BatchSizer
from grus.elastic.group import Group
from grus.elastic.plan import Progress
from grus.elastic.state import Differs

_UPDATES = 4096
"""More updates than any step has."""


def begun_after(earlier: int) -> int:
    """The time (ms since 1970) at which an attempt begins; later than that of the one it continues."""
    return max(round(time.time() * 1000), earlier + 1)


class Torn(Exception):
    """Nothing is left to go on from, and this worker has only a part of what there was."""


class Standing:
    def __init__(self, arguments: Arguments, sizer: BatchSizer | None, samples: int) -> None:
        self.progress = Progress()
        self.updates: dict[str, int] = {}
        """How often each optimizer has been applied in the step under way: not to be done again."""
        self.losses: dict[str, float] = {}
        """… and the mean loss that it was last applied for; nobody can compute it again."""
        self.begun = 0
        """When this attempt began, from nothing or from a checkpoint; workers that share a state agree."""
        self.batch = sizer.bounds.low if sizer is not None else arguments.low
        self.anew = True
        """Whether the present team had nobody to go on from."""
        self._parts = arguments.parts
        self._sizer = sizer
        self._same = {"seed": arguments.seed, "samples": samples}
        """Numbers in which all workers of a run must agree."""
        self._signature = state.signature(arguments.models)
        self._kin = zlib.crc32(json.dumps([self._signature, self._same]).encode())
        """Equal for workers that fit each other."""
        self._whole = False
        self._torn = False
        """Whether a part of another state has come, and no more."""

    def height(self) -> int:
        """A number to compare workers by: 0 for one that has nothing to give."""
        at = self.progress
        # The epoch counts too: where streams end, it changes without a step.
        return 1 + (at.epoch + at.step) * _UPDATES + sum(self.updates.values()) if self._whole else 0

    def capture(self) -> dict[str, Any]:
        at = self.progress
        return {
            "parts": state.capture(self._parts),
            "progress": [at.epoch, at.cursor, at.step],
            "updates": dict(self.updates),
            "losses": dict(self.losses),
            "begun": self.begun,
            # The batch that all use now; the first worker may have chosen another for a step that was lost.
            "sizer": {**self._sizer.state(), "batch": self.batch} if self._sizer is not None else {},
            "same": self._same,
            "signature": self._signature,
        }

    def restore(self, found: Mapping[str, Any]) -> None:
        if objection := self._objection(found):
            raise Differs(objection)
        state.restore(self._parts, found["parts"])
        self.progress = Progress(*found["progress"])
        self.updates = dict(found["updates"])
        self.losses = dict(found["losses"])
        self.begun = int(found.get("begun", 0))  # 0: saved before states had it
        if self._sizer is not None:
            self._sizer.load(found["sizer"])
            self.batch = self._sizer.batch
        self._whole, self._torn = True, False

    def begin(self, saved: Callable[[], dict[str, Any] | None]) -> None:
        """Begin the run: from a checkpoint, or from the start."""
        if (found := saved()) is not None:
            self.restore(found)
        elif self._torn:
            raise Torn("whoever sent its state to this worker was lost in the middle, and nothing is saved")
        self.begun = begun_after(self.begun)
        self._whole = True

    def level(self, group: Group, device: torch.device, saved: Callable[[], dict[str, Any] | None]) -> bool:
        """Bring all members to where the most advanced one is; whether any was ahead of this one.

        Where nobody is anywhere, the first member begins the run. Raises Broken, Differs, Torn.
        """
        heights, alike = self._compare(group, device)
        anew = self.anew = not any(heights)
        if anew and group.rank == 0:
            self.begin(saved)
        if group.world == 1 or (min(heights) == max(heights) and not anew):
            return anew
        source = 0 if anew else heights.index(max(heights))
        if group.rank == source:
            state.give(group, self.capture(), device, sure=alike)
            return False
        behind = anew or heights[group.rank] < max(heights)
        keep = behind and self._whole  # what it has is all that there is, should the giver be lost
        own = None if keep else self.capture()
        self._torn = behind and not keep
        found = state.take(group, source, device, own, self._objection, sure=alike)
        if behind:
            self.restore(found)
        return behind

    def _compare(self, group: Group, device: torch.device) -> tuple[list[int], bool]:
        """How far every member is; and whether all have the same model, so that nobody will object."""
        table = torch.zeros((group.world, 2), dtype=torch.int64, device=device)
        table[group.rank] = torch.tensor([self.height(), self._kin])
        group.all_reduce(table).wait()
        group.settle()
        heights, kin = table.T.tolist()
        return heights, len(set(kin)) == 1

    def _objection(self, found: Mapping[str, Any]) -> str:
        """Why that state is not for this worker; "" if it is."""
        if differs := state.difference(self._signature, found["signature"]):
            return f"the model is not the same: {differs}"
        for name, value in self._same.items():
            if found["same"][name] != value:
                return f"{name} is not the same: {value} here, {found['same'][name]} there"
        return ""
