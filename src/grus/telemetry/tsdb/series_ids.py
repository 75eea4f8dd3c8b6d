"""The numbers that stand for subjects and measures in the file. New ones are given out at once, and written
with the next transaction."""

from dataclasses import dataclass

from grus.telemetry.samples import Measure, Subject
from grus.telemetry.tsdb.sqlite_file import RecorderFile

_NAMES = frozenset(measure.value for measure in Measure)


@dataclass(slots=True)
class Name:
    """A subject as the file knows it."""

    id: int
    measures: int = 0
    """The codes of what was ever measured of it, as bits."""


class Names:
    """Names of one file. A file that had to be created again learns them all again, under the same
    numbers.
    """

    def __init__(self, file: RecorderFile) -> None:
        self.subjects = {subject: Name(id_, measures) for subject, (id_, measures) in file.subjects().items()}
        known = file.measures()
        self.codes = {Measure(name): code for name, code in known.items() if name in _NAMES}
        self._next_code = 1 + max(known.values(), default=0)
        self._next_id = 1 + max((name.id for name in self.subjects.values()), default=0)
        self._new_codes: set[Measure] = set()
        self._new: set[Subject] = set()

    def name(self, subject: Subject) -> Name:
        found = self.subjects.get(subject)
        if found is None:
            found = self.subjects[subject] = Name(self._next_id)
            self._next_id += 1
            self._new.add(subject)
        return found

    def code(self, measure: Measure) -> int:
        found = self.codes.get(measure)
        if found is None:
            found = self.codes[measure] = self._next_code
            self._next_code += 1
            self._new_codes.add(measure)
        return found

    def has(self, subject: Subject, code: int) -> None:
        """This is measured of it."""
        name = self.subjects[subject]
        if not name.measures >> code & 1:
            name.measures |= 1 << code
            self._new.add(subject)

    def measures(self, subject: Subject) -> frozenset[Measure]:
        bits = self.subjects[subject].measures if subject in self.subjects else 0
        return frozenset(measure for measure, code in self.codes.items() if bits >> code & 1)

    def write(self, file: RecorderFile) -> None:
        """Write the new names, in the present transaction; call `written` after its commit."""
        for measure in self._new_codes:
            file.put_measure(self.codes[measure], measure.value)
        for subject in self._new:
            name = self.subjects[subject]
            file.put_subject(subject, name.id, name.measures)

    def written(self) -> None:
        self._new_codes.clear()
        self._new.clear()

    def write_all_again(self) -> None:
        self._new_codes = set(self.codes)
        self._new = set(self.subjects)

    def forget(self, gone: set[int], but: set[Subject]) -> None:
        self.subjects = {
            subject: name for subject, name in self.subjects.items() if name.id not in gone or subject in but
        }
