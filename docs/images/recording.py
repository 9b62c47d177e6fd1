"""Records a run of the demo as an SVG: each line appears when the program printed it, then the last screen stays."""

import subprocess
import sys
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEMO = ("-m", "examples.word_count")
LINE_PX, CHARACTER_PX, MARGIN_PX = 19, 7.85, 16
COLUMNS = 108
"""Longer lines are cut here."""

MAX_LINES = 30
PAUSE_S = 6.0
"""How long the last screen stays before the recording begins again."""

SPEED = 2.0
"""How many times faster than the run the recording plays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of output, and the seconds after the start at which it was printed."""

    at_s: float
    text: str

    @property
    def style(self) -> str:
        """The colour of the line."""
        if self.text.startswith("  proven"):
            return ' class="p"'
        return ' class="e"' if "SIGKILL" in self.text or self.text.startswith("  WRONG") else ""


def record() -> str:
    """Run the demo and give the recording as SVG. Raises ``CalledProcessError`` if the demo fails."""
    return render([Line(at_s=0, text="$ make demo"), *_run()])


def _run() -> list[Line]:
    """Run the demo, and return what it printed, and when."""
    began = time.monotonic()
    with subprocess.Popen([sys.executable, *DEMO], stdout=subprocess.PIPE, text=True, cwd=ROOT) as demo:
        assert demo.stdout is not None
        lines = [Line(at_s=time.monotonic() - began, text=text.rstrip()) for text in demo.stdout]
    if demo.returncode:
        raise subprocess.CalledProcessError(demo.returncode, DEMO)
    return _thinned(lines)


def _thinned(lines: list[Line]) -> list[Line]:
    """Leave out lines of progress evenly, so that the recording fits on a screen."""
    progress = [line for line in lines if line.text.startswith("acked")]
    room = MAX_LINES - 1 - (len(lines) - len(progress))
    step = max(1, -(-len(progress) // max(1, room)))
    kept = set(map(id, progress[step - 1 :: step]))
    return [line for line in lines if not line.text.startswith("acked") or id(line) in kept]


def render(lines: list[Line]) -> str:
    """Draw the lines as a terminal; CSS shows each at its time and repeats the whole."""
    total = lines[-1].at_s / SPEED + PAUSE_S
    width = round(COLUMNS * CHARACTER_PX + 2 * MARGIN_PX)
    height = LINE_PX * len(lines) + 2 * MARGIN_PX
    style = (
        'text{font:13px ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;fill:#d1d7e0;white-space:pre;'
        f"animation:{total:.2f}s steps(1) infinite}}.p{{fill:#3fb950}}.e{{fill:#d29922}}"
        "@media(prefers-reduced-motion:reduce){text{animation:none!important}}"
    )
    drawn = [_drawn(number, line, total) for number, line in enumerate(lines)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img"><title>A run of make demo</title>'
    )
    page = f'<rect width="{width}" height="{height}" rx="8" fill="#151b23"/>'
    return "\n".join([head, f"<style>{style}</style>", page, *drawn, "</svg>", ""])


def _drawn(number: int, line: Line, total: float) -> str:
    """Draw one line, with the key frames that show it from its time on."""
    y = MARGIN_PX + LINE_PX * number + 13
    text = line.text if len(line.text) <= COLUMNS else line.text[: COLUMNS - 1] + "…"
    shown = (
        f'<text x="{MARGIN_PX}" y="{y}"{line.style} style="animation-name:l{number}">{escape(text, quote=False)}</text>'
    )
    share = 100 * line.at_s / SPEED / total
    frames = f"@keyframes l{number}{{0%{{opacity:0}}{share:.1f}%,100%{{opacity:1}}}}"
    return f"<style>{frames}</style>{shown}" if number else shown
