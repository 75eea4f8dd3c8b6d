"""The record that a state cannot do without. Where there is none, a server begins with an empty one, and ends
every worker that it does not know; so a state that was in use, and has lost its record, is refused.

Looks only.
"""

from pathlib import Path

from grus.engines.local import fencing, worker_records
from grus.model.errors import NotFound

DATABASE = "grus.db"


def require(state: Path) -> None:
    """Raises NotFound if the record is gone; not where nothing was ever stored."""
    file = state / DATABASE
    if file.is_file() and file.stat().st_size > 0:
        return
    engine = state / "engine"
    epoch, files = fencing.highest(engine), sorted(path.name for path in state.glob(f"{DATABASE}?*"))
    # A log or a journal alone may be left of a first start that was cut off.
    if not epoch and not any(name.startswith(f"{DATABASE}.") for name in files):
        return
    there = [*(["engine"] if epoch else []), *files]
    living = len(worker_records.living(engine))
    raise NotFound(
        f"{file} is missing or empty, but this state was in use: there {'is' if len(there) == 1 else 'are'} "
        f"{', '.join(there)} (epoch {epoch}), and {living} worker{'s live' if living != 1 else ' lives'}. "
        "A server without it would know no job and end them. Bring the file back, or use `grus restore "
        f"BACKUP`. To begin anew all the same, end the workers that live, and move these away from {state}"
    )
