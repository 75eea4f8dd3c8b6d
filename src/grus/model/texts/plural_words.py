"""Numbers with their nouns: `1 GPU`, `2 GPUs`, `0.5 GPU`, `2..4 workers`."""


def counted(number: float | str, noun: str, plural: str = "") -> str:
    """A number and its noun; singular for one, and for a part of one. A text that is no number is plural."""
    try:
        single = 0 < float(number) <= 1
    except ValueError:
        single = False
    return f"{number} {noun if single else plural or noun + 's'}"
