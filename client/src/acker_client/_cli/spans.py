"""Times for people: lengths, and how long ago something was."""

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def span(milliseconds: float) -> str:
    """Write a length of time in its largest whole unit: ``7 min``; ``0 s`` for what is shorter than a second."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{int(milliseconds // size)} {unit}"
    return "0 s"


def ago(at_ms: int | None, now_ms: float) -> str:
    """Write how long ago a time was; a dash for none."""
    return "-" if at_ms is None else f"{span(now_ms - at_ms)} ago"
