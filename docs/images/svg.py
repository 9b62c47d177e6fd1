"""Writes an SVG drawing of boxes, arrows and text that follows the reader's light or dark mode."""

from dataclasses import dataclass, field
from html import escape
from typing import Literal

Kind = Literal["plain", "acker", "good", "bad", "quiet", "store"]
"""The colour of a box: a program, the acker, a good end, a bad end, a remark, a store."""

Point = tuple[float, float]

STYLE = """
text{font:14px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#1f2328}
.m{font-family:ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
.s{font-size:12px}.h{font-weight:600}.d{fill:#59636e}
.page{fill:#fff}
.box{stroke-width:1.5;fill:#f6f8fa;stroke:#59636e}
.acker{fill:#ddf4ff;stroke:#0969da}.good{fill:#dafbe1;stroke:#1a7f37}.bad{fill:#ffebe9;stroke:#cf222e}
.quiet{fill:none;stroke:#818b98;stroke-dasharray:4 3}.store{fill:#fff8c5;stroke:#9a6700}
.line{fill:none;stroke:#59636e;stroke-width:1.5}.dash{stroke-dasharray:5 4}.tip{fill:#59636e}
@media(prefers-color-scheme:dark){
text{fill:#f0f6fc}.d{fill:#9198a1}.page{fill:#0d1117}
.box{fill:#151b23;stroke:#9198a1}
.acker{fill:#12253d;stroke:#4493f8}.good{fill:#12261e;stroke:#3fb950}.bad{fill:#301a1f;stroke:#f85149}
.quiet{fill:none;stroke:#656c76}.store{fill:#2b230e;stroke:#d29922}
.line{stroke:#9198a1}.tip{fill:#9198a1}}
"""

TIP = (
    '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="tip" d="M0 0 10 5 0 10z"/></marker>'
)


@dataclass(slots=True, kw_only=True)
class Drawing:
    """A drawing of ``width`` by ``height`` pixels; ``title`` says what it shows to readers who do not see it."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, *lines: str, kind: Kind = "plain") -> None:
        """Draw a box with centred lines of text; the first line is bold, later lines are small."""
        name = "box" if kind == "plain" else f"box {kind}"
        self.parts.append(f'<rect class="{name}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        top = y + height / 2 - 9 * (len(lines) - 1) + 5
        for number, line in enumerate(lines):
            style = "h" if number == 0 else "s"
            self.text(x + width / 2, top + 18 * number, line, style=style, anchor="middle")

    def text(self, x: float, y: float, text: str, *, style: str = "", anchor: str = "start") -> None:
        """Write a line of text with its baseline at ``y``; styles: ``m`` code, ``s`` small, ``h`` bold, ``d`` dim."""
        named = f' class="{style}"' if style else ""
        placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{named}{placed}>{escape(text, quote=False)}</text>')

    def arrow(self, *points: Point, label: str = "", at: Point | None = None, style: str = "") -> None:
        """Draw an arrow through points; the label is centred above its first segment, or at ``at``."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        name = f"line {style}".strip()
        self.parts.append(f'<polyline class="{name}" points="{path}" marker-end="url(#tip)"/>')
        if label:
            (x0, y0), (x1, y1) = points[:2]
            x, y = at or ((x0 + x1) / 2, (y0 + y1) / 2 - 7)
            self.text(x, y, label, style="s", anchor="middle")

    def render(self) -> str:
        """Return the text of the SVG file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img"><title>{escape(self.title)}</title>'
        )
        page = f'<rect class="page" width="{self.width}" height="{self.height}" rx="8"/>'
        return "\n".join([head, f"<style>{STYLE}</style>", TIP, page, *self.parts, "</svg>", ""])
