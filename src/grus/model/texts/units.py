"""Units: amounts as users write them (GPUs, bytes, seconds, percentages), each with its inverse.

Everything here is a pure function of its argument. A parser raises ValueError whose text is the broken rule,
ready to be shown; it never guesses: an amount without a unit, or with one that means two things, is refused.
"""

import math
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

from grus.model.resources import GPU, Range

MOST_GPUS = 16_384
"""Maximum number of GPUs in one job; a larger number is assumed to be a typing error."""
SMALLEST_SHARE = GPU // 100

_UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "PB": 10**15,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
    "PIB": 2**50,
}
_SPELLED = ("PiB", "PB", "TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB")
"""Units, largest first."""
_BYTES = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?) ?([A-Za-z]{1,3})", re.ASCII)
_HALF_UNIT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?) ?([KMGTP])(i?)", re.ASCII | re.IGNORECASE)
_SPAN = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,6})?[smhdw])+", re.ASCII)
_SPAN_PART = re.compile(r"([0-9.]+)([smhdw])", re.ASCII)
_SECONDS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,4})?) ?%", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{0,9}\.[0-9]{1,9}", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})", re.ASCII)
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9 ._+/()-]{0,63}", re.ASCII)

GPU_FORMS = (
    "write a number (4), a range (2..8), a fraction (0.5), memory (12GB), auto, "
    "or one of these after a type (A100:2..8)"
)
BYTES_FORMS = "write a number with its unit, such as 12GB (decimal, 10^9) or 12GiB (binary, 2^30)"
SECONDS_FORMS = "write a length of time such as 120s, 30m, 1h30m or 3d"
PERCENT_FORMS = "write a percentage from 0% to 100%, such as 10%"


ONE = Range(1, 1)


@dataclass(frozen=True, slots=True)
class GpuAsk:
    """Request for GPUs as written in `resources.gpu`."""

    count: Range = ONE
    """Whole GPUs; 1 for a slice."""
    share: int = 0
    """A fraction of one GPU, in micro-GPUs; 0 if this is none."""
    memory: int = 0
    """A slice of one GPU by memory, in bytes; 0 if this is none."""
    types: tuple[str, ...] = ()
    """Accepted GPU types; empty for any."""
    auto: bool = False
    """True if Grus chooses the size."""

    @property
    def sliced(self) -> bool:
        """Return whether it requests a part of one GPU."""
        return bool(self.share or self.memory)

    def __str__(self) -> str:
        return render_gpu(self)


@lru_cache(maxsize=2048, typed=True)
def parse_gpu(value: object) -> GpuAsk:
    """Parse `4`, `0.5`, `2..8`, `12GB`, `A100:2..8`, `A100|H100:4`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(GPU_FORMS)
    if isinstance(value, int | float):
        return _gpu_number(value)
    text = value.strip()
    if ":" not in text:
        return _gpu_amount(text)
    kinds, _, amount = text.rpartition(":")
    types = tuple(kind.strip() for kind in kinds.split("|"))
    _check_types(types)
    ask = _gpu_amount(amount.strip())
    if ask.count.high == 0:
        raise ValueError("a job without a GPU cannot name a GPU type: write 0")
    return replace(ask, types=types)


def _check_types(types: tuple[str, ...]) -> None:
    for kind in types:
        if not _TYPE.fullmatch(kind):
            raise ValueError(
                f"before the colon stands a GPU type such as A100, or several as A100|H100; {GPU_FORMS}"
            )
        if kind.lower() == "any":
            raise ValueError("any GPU type is what you get without naming one: leave out 'any:'")
    if len(set(types)) != len(types):
        raise ValueError("names a GPU type twice")


def _gpu_amount(text: str) -> GpuAsk:
    if _WHOLE.fullmatch(text):
        return _gpu_number(int(text))
    if _DECIMAL.fullmatch(text):
        return _gpu_number(float(text))
    if match := _RANGE.fullmatch(text):
        return GpuAsk(_gpu_range(int(match[1]), int(match[2])))
    if text.lower() == "auto":
        return GpuAsk(auto=True)
    if _BYTES.fullmatch(text) or _HALF_UNIT.fullmatch(text):
        memory = parse_bytes(text)
        if memory <= 0:
            raise ValueError("a slice by memory must be above zero")
        return GpuAsk(memory=memory)
    raise ValueError(_gpu_hint(text))


def _gpu_hint(text: str) -> str:
    """Suggest the form that the writer probably meant, else list all forms."""
    if match := re.fullmatch(r"([0-9]+) *(?:-|to|\.\.\.|\.\. +|…|,) *([0-9]+)", text, re.ASCII):
        return f"a range is written with two dots: {match[1]}..{match[2]}"
    if re.fullmatch(r"[0-9]+\.\.|\.\.[0-9]+", text, re.ASCII):
        return "a range needs both ends, such as 2..8"
    if re.fullmatch(r"[0-9.]+\.\.[0-9.]+", text, re.ASCII):
        return "a fraction cannot have a range: a range is of whole GPUs, such as 2..8"
    if text.startswith("-"):
        return f"must not be negative; {GPU_FORMS}"
    if _TYPE.fullmatch(text):
        return f"say how many, such as {text[:20]}:1; {GPU_FORMS}"
    return GPU_FORMS


def _gpu_range(low: int, high: int) -> Range:
    if low > high:
        raise ValueError(f"the low end of a range comes first: {high}..{low}")
    if low == 0:
        raise ValueError(f"a range starts at 1 or more, such as 1..{max(high, 1)}")
    if high > MOST_GPUS:
        raise ValueError(f"must be at most {MOST_GPUS} GPUs")
    return Range(low, high)


def _gpu_number(number: float) -> GpuAsk:
    if isinstance(number, float) and not math.isfinite(number):  # a whole number may be too large for a float
        raise ValueError(GPU_FORMS)
    if number < 0:
        raise ValueError(f"must not be negative; {GPU_FORMS}")
    if number > MOST_GPUS:
        raise ValueError(f"must be at most {MOST_GPUS} GPUs")
    if number == int(number):
        return GpuAsk(Range(int(number), int(number)))
    if number > 1:
        raise ValueError("a fraction is a part of one GPU, below 1; above it only whole GPUs")
    share = round(number * GPU)
    if share < SMALLEST_SHARE:
        raise ValueError("a fraction must be at least 0.01")
    return GpuAsk(share=share) if share < GPU else GpuAsk()


def render_gpu(ask: GpuAsk) -> str:
    """Render a request: the inverse of parse_gpu."""
    if ask.auto:
        amount = "auto"
    elif ask.share:
        amount = render_gpus(ask.share)
    elif ask.memory:
        amount = render_bytes(ask.memory)
    else:
        amount = str(ask.count)
    return f"{'|'.join(ask.types)}:{amount}" if ask.types else amount


def render_gpus(amount: int) -> str:
    """Render micro-GPUs as users write them: 2, 0.5."""
    return f"{amount / GPU:.6f}".rstrip("0").rstrip(".")


def gpu_number(amount: int) -> int | float:
    """Return micro-GPUs as a number of GPUs: 2 or 0.5."""
    whole, rest = divmod(amount, GPU)
    return amount / GPU if rest else whole


def parse_range(value: object) -> Range:
    """Parse a number of replicas: `4` or `2..8`, at least 1."""
    if isinstance(value, int) and not isinstance(value, bool):
        low = high = value
    elif isinstance(value, str) and (match := _RANGE.fullmatch(value.strip())):
        low, high = int(match[1]), int(match[2])
    elif isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        low = high = int(value)
    else:
        raise ValueError("write a whole number (4) or a range (2..8)")
    if low > high:
        raise ValueError(f"the low end of a range comes first: {high}..{low}")
    if low < 1:
        raise ValueError("must be at least 1")
    if high > MOST_GPUS:
        raise ValueError(f"must be at most {MOST_GPUS}")
    return Range(low, high)


@lru_cache(maxsize=2048, typed=True)
def parse_bytes(value: object) -> int:
    """Parse bytes: `12GB` is decimal (12 × 10^9), `12GiB` binary (12 × 2^30); upper or lower case."""
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"needs a unit: {BYTES_FORMS}")
    if not isinstance(value, str):
        raise ValueError(BYTES_FORMS)
    text = value.strip()
    if match := _HALF_UNIT.fullmatch(text):
        number, letter = match[1], match[2].upper()
        raise ValueError(f"say which unit: {number}{letter}B (decimal) or {number}{letter}iB (binary)")
    match = _BYTES.fullmatch(text)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise ValueError(BYTES_FORMS)
    amount = Decimal(match[1]) * unit
    if amount != int(amount):
        raise ValueError("must be a whole number of bytes")
    if amount >= 2**60:
        raise ValueError("must be below 2^60 bytes")
    return int(amount)


def render_bytes(amount: int) -> str:
    """Render bytes in the largest unit of which they are a whole number: the inverse of parse_bytes."""
    for name in _SPELLED:
        unit = _UNITS[name.upper()]
        if amount and amount % unit == 0:
            return f"{amount // unit}{name}"
    return f"{amount}B"


def render_bytes_short(amount: int) -> str:
    """Render bytes for users, rounded: 12GB, 1.5GB, 830MB. Not exact."""
    for name in _SPELLED[1::2]:
        unit = _UNITS[name]
        if amount >= unit:
            return f"{amount / unit:.1f}".rstrip("0").rstrip(".") + name
    return f"{amount}B"


@lru_cache(maxsize=2048, typed=True)
def parse_seconds(value: object) -> float:
    """Parse seconds: `120s`, `30m`, `1h30m`, `3d`, `2w`; a plain number is seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= 1e12:  # nor is a value that is no number between the two
            raise ValueError(f"must be a number of seconds, not negative; {SECONDS_FORMS}")
        return float(value)
    if not isinstance(value, str):
        raise ValueError(SECONDS_FORMS)
    text = value.strip()
    if not _SPAN.fullmatch(text):
        raise ValueError(SECONDS_FORMS)
    parts = _SPAN_PART.findall(text)
    units = [unit for _, unit in parts]
    if sorted(set(units), key="wdhms".index) != units:
        raise ValueError(f"has its units out of order or twice; {SECONDS_FORMS}")
    return float(sum(Decimal(number) * _SECONDS[unit] for number, unit in parts))


def render_seconds(seconds: float) -> str:
    """Render seconds, to the microsecond: 90 is `1m30s`. The inverse of parse_seconds."""
    rest = round(seconds * 1_000_000)
    text = ""
    for unit in "dhm":
        count, rest = divmod(rest, _SECONDS[unit] * 1_000_000)
        text += f"{count}{unit}" if count else ""
    if rest or not text:
        text += f"{rest / 1_000_000:.6f}".rstrip("0").rstrip(".") + "s"
    return text


@lru_cache(maxsize=256, typed=True)
def parse_percent(value: object) -> float:
    """Parse a percentage: `10%` is 0.1. A bare number is refused: 0.1 could mean a tenth or a thousandth."""
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or float(match[1]) > 100:
        raise ValueError(PERCENT_FORMS)
    return float(Decimal(match[1]) / 100)


def render_percent(part: float) -> str:
    """Render a percentage: 0.1 is `10%`. The inverse of parse_percent."""
    return f"{part * 100:.4f}".rstrip("0").rstrip(".") + "%"
