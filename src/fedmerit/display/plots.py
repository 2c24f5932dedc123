"""A round as a picture, with matplotlib."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedmerit.errors import MissingExtraError
from fedmerit.flags import Flag

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FINE, _NOTED, _FLAGGED = "#0f766e", "#8a6d00", "#b42318"
_HEIGHT = 0.3  # inches per client


def plot_scores(
    names: Sequence[str],
    scores: Sequence[float],
    flags: Sequence[Flag | None],
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one bar per client, best first; red bars are flagged, with the reason beside them."""
    if ax is None:
        try:
            from matplotlib import pyplot  # a notebook shows what it makes
        except ModuleNotFoundError:
            need = "plots need matplotlib: pip install 'fedmerit[report]'"
            raise MissingExtraError(need) from None
        size = (7, 1 + _HEIGHT * len(names))
        ax = pyplot.subplots(figsize=size, layout="constrained")[1]
    order = sorted(range(len(names)), key=lambda row: (-scores[row], row))
    for place, row in enumerate(order):
        flag = flags[row]
        shade = _FINE if flag is None else _FLAGGED if flag.accuses else _NOTED
        ax.barh(place, scores[row], color=shade)
        if flag is not None:
            # A name may hold a dollar sign, which matplotlib would read as a formula.
            ax.text(max(scores[row], 0.0), place, f" {flag.words}", va="center", parse_math=False)
    ax.set_yticks(range(len(order)))
    for tick, row in zip(ax.set_yticklabels([names[row] for row in order]), order, strict=True):
        tick.set_parse_math(False)
        tick.set_text(names[row])
    ax.invert_yaxis()
    ax.set_xlabel("score")
    return ax
