"""Training state of a worker: its progress, its whole content, and the synchronization of a new worker group.

The most advanced member sends its state to the rest of the group. A new worker has no progress until it has
received all of it: half a state must never look like a whole one, even if the sender dies in the middle. A
worker that has a state already keeps it until it has received all of the other one.
"""

import json
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from grus.elastic.data.adaptive_batch_size import BatchSizer
from grus.elastic.data.sample_schedule import Progress
from grus.elastic.rendezvous.process_group import Group
from grus.elastic.training_loop.validate_arguments import Arguments
from grus.elastic.training_state import state_dict
from grus.elastic.training_state.state_dict import Differs

_UPDATES = 4096
"""More updates than any step has."""


def begun_after(earlier: int) -> int:
    """The time (ms since 1970) at which an attempt begins; later than that of the one it continues."""
    return max(round(time.time() * 1000), earlier + 1)


class Torn(Exception):
    """Raised when no state is left to continue from, and this worker has only a part of the former one."""


class TrainingState:
    def __init__(self, arguments: Arguments, sizer: BatchSizer | None, samples: int) -> None:
        self.progress = Progress()
        self.updates: dict[str, int] = {}
        """Times that each optimizer has been applied in the step under way: not to be done again."""
        self.losses: dict[str, float] = {}
        """Mean loss that each optimizer was last applied for; it cannot be computed again."""
        self.begun = 0
        """Start of this attempt, from nothing or from a checkpoint; workers that share a state agree."""
        self.batch = sizer.bounds.low if sizer is not None else arguments.low
        self.anew = True
        """True if no member of the present worker group had a state to continue from."""
        self._parts = arguments.parts
        self._sizer = sizer
        self._same = {"seed": arguments.seed, "samples": samples}
        """Numbers in which all workers of a run must agree."""
        self._signature = state_dict.signature(arguments.models)
        self._kin = zlib.crc32(json.dumps([self._signature, self._same]).encode())
        """Equal for workers that fit each other."""
        self._whole = False
        self._torn = False
        """True if only a part of another state has been received."""

    def height(self) -> int:
        """Return a number to compare workers by: 0 for one without a state to send."""
        at = self.progress
        # The epoch counts too: where streams end, it changes without a step.
        return 1 + (at.epoch + at.step) * _UPDATES + sum(self.updates.values()) if self._whole else 0

    def capture(self) -> dict[str, Any]:
        at = self.progress
        return {
            "parts": state_dict.capture(self._parts),
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
        state_dict.restore(self._parts, found["parts"])
        self.progress = Progress(*found["progress"])
        self.updates = dict(found["updates"])
        self.losses = dict(found["losses"])
        self.begun = int(found.get("begun", 0))  # 0: saved before states had this field
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
        """Synchronize all members with the most advanced one; return whether any was ahead of this one.

        If no member has a state, the first member starts the run. Raises Broken, Differs, Torn.
        """
        heights, alike = self._compare(group, device)
        anew = self.anew = not any(heights)
        if anew and group.rank == 0:
            self.begin(saved)
        if group.world == 1 or (min(heights) == max(heights) and not anew):
            return anew
        source = 0 if anew else heights.index(max(heights))
        if group.rank == source:
            state_dict.give(group, self.capture(), device, sure=alike)
            return False
        behind = anew or heights[group.rank] < max(heights)
        keep = behind and self._whole  # its state is the only one left, should the sender be lost
        own = None if keep else self.capture()
        self._torn = behind and not keep
        found = state_dict.take(group, source, device, own, self._objection, sure=alike)
        if behind:
            self.restore(found)
        return behind

    def _compare(self, group: Group, device: torch.device) -> tuple[list[int], bool]:
        """Return every member's progress, and whether all have
        the same model, so that none will refuse the state.
        """
        table = torch.zeros((group.world, 2), dtype=torch.int64, device=device)
        table[group.rank] = torch.tensor([self.height(), self._kin])
        group.all_reduce(table).wait()
        group.settle()
        heights, kin = table.T.tolist()
        return heights, len(set(kin)) == 1

    def _objection(self, found: Mapping[str, Any]) -> str:
        """Why that state is not for this worker; "" if it is."""
        if differs := state_dict.difference(self._signature, found["signature"]):
            return f"the model is not the same: {differs}"
        for name, value in self._same.items():
            if found["same"][name] != value:
                return f"{name} is not the same: {value} here, {found['same'][name]} there"
        return ""
