"""What every `grus.telemetry.samples.SampleSource` promises."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import pytest

from grus.telemetry.samples import SampleSource, Subject


class Measured(NamedTuple):
    """A source, and ways to break and to mend what it measures."""

    source: SampleSource
    breaks: Callable[[], None]
    mends: Callable[[], None]


class SourceContract(ABC):
    """Inherit, and give `measured`. Its clock begins anywhere; moments are seconds apart."""

    START = 1000.0
    LATER = 40.0
    """Seconds after which what was broken is asked again at the latest."""

    @pytest.fixture
    @abstractmethod
    def measured(self) -> Measured:
        """One that measures something."""

    def test_samples_are_of_somebody_and_not_from_the_future(self, measured: Measured) -> None:
        batch = measured.source.sample(self.START)
        assert batch.samples
        assert batch.lost == ()
        for sample in batch.samples:
            assert isinstance(sample.subject, Subject)
            assert sample.values
            assert sample.at < self.START + self.LATER
        assert measured.source.shortest > 0

    def test_what_is_broken_is_told_and_shows_nothing_until_it_is_mended(self, measured: Measured) -> None:
        assert measured.source.sample(self.START).samples
        measured.breaks()
        at = self.START + self.LATER
        batch = measured.source.sample(at)
        assert batch.samples == ()
        assert batch.lost
        assert all(lost.what and lost.why and lost.since <= at for lost in batch.lost)
        again = measured.source.sample(at + 1).lost
        assert [(lost.what, lost.since) for lost in again] == [(lost.what, lost.since) for lost in batch.lost]
        measured.mends()
        batch = measured.source.sample(at + self.LATER)
        assert batch.samples
        assert batch.lost == ()

    def test_closing_twice_is_closing_once(self, measured: Measured) -> None:
        measured.source.sample(self.START)
        measured.source.close()
        measured.source.close()
