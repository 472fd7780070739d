"""Style of all figures: colors, fonts, and PNG bytes that do not change between runs."""

import io
import textwrap
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.report.tables import shorten
from tasks.safe_text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinguishable under the common color-vision deficiencies (after Okabe and Ito, and Tol), and dark enough
# for small dots on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#332288", "#56B4E9", "#882255")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "p")
INK, MUTED, FAINT, HAIRLINE = "#1d2733", "#5c6875", "#c9d0d7", "#e4e8ec"
ACCENT, ACCENT_FILL, PLAIN = "#0072B2", "#5aa6d3", "#97a3af"

_STYLE: Mapping[str, Any] = {
    "text.parse_math": False,  # a label may be named "$x$"
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlepad": 7,
    "axes.labelsize": 9,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": HAIRLINE,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "hatch.linewidth": 1.1,
    "legend.frameon": False,
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.08,
}
_FALLBACK_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
    "Noto Emoji",
)
_DPI = 144
# matplotlib's settings are global to the process; stages may run in threads.
_LOCK = threading.RLock()


@dataclass(frozen=True)
class Drawing:
    """PNG bytes of a figure, and a caption that says how to read it and what it omits."""

    png: bytes
    caption: str


@contextmanager
def drawing() -> Iterator[None]:
    """Use only the settings of this module; a user's matplotlibrc is ignored."""
    import matplotlib
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = ["DejaVu Sans", *(name for name in _FALLBACK_FONTS if name in installed)]
    with _LOCK, matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        settings: dict[Any, Any] = {**_STYLE, "font.family": fonts}
        matplotlib.rcParams.update(settings)
        # Characters that no installed font covers become boxes in the figure; the page shows them as text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        yield


def new_figure(width: float, height: float) -> "Figure":
    """Create an empty figure on the Agg canvas, size in inches, without pyplot state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def to_png(figure: "Figure") -> bytes:
    """Return PNG bytes without dates or versions: the same picture has the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()


def name(text: str, width: int = 28) -> str:
    """Prepare a name for a figure: without control characters, cut if long."""
    return shorten(printable(text).strip(), width)


def footnote(figure: "Figure", text: str) -> None:
    """Write a remark below the figure."""
    if text:
        lines = textwrap.fill(text, width=int(figure.get_figwidth() * 15))
        figure.supxlabel(lines, fontsize=8, color=MUTED, x=0.01, ha="left")


def hide_frame(axes: "Axes") -> None:
    """Remove ticks and lighten the frame, for panels whose units have no meaning."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(HAIRLINE)
