"""Build hook of grus-gpu-sdk: packs the modules that grus-gpu leaves out."""

import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SdkModules(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own parameter is of no use here
    """Adds the modules to a wheel, and with their folder `src` to a source archive."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        below = "src/" if self.target_name == "sdist" else ""
        for path in self._paths():
            build_data["force_include"][str(path)] = f"{below}{path.relative_to(self._source())}"

    def _source(self) -> Path:
        """The folder `src`: in a source archive its own, else that of the repository."""
        own = Path(self.root, "src")
        return own if own.is_dir() else Path(self.root).parents[1] / "src"

    def _paths(self) -> list[Path]:
        project = self._source().with_name("pyproject.toml")
        if self._source().parent == Path(self.root):
            return [self._source() / "grus"]
        wheel = tomllib.loads(project.read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
        return [project.parent / path.lstrip("/") for path in wheel["exclude"]]
