"""This machine keeps what every driver promises."""

from pathlib import Path

import pytest

from grus.compare.backends import of
from grus.compare.environments import Driver, parse
from tests.contracts.driver_contract import DriverContract

ENVIRONMENT = parse(["local", "local"])[0]


class TestLocal(DriverContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = tmp_path / "temporary"
        self.base.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(self.base))

    @pytest.fixture
    def driver(self) -> Driver:
        return of(ENVIRONMENT)

    @pytest.fixture
    def again(self, driver: Driver) -> Driver:
        """The same: processes of another attempt end with it."""
        return driver

    def left(self) -> list[str]:
        commands = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
        running = [str(command) for command in commands if str(self.base).encode() in command]
        return [*running, *(str(path) for path in self.base.iterdir())]
