"""The figure of what lies gain: against the noise of clients and the number of parameters."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import matplotlib as mpl
from matplotlib.figure import Figure

from fedmerit.experiments.picture import save

_MARKERS = "osD^v"
_SMALLEST = 1e-2  # percent; below it the axis is linear, so that no gain at all can be drawn


class Cell(Protocol):
    """What is drawn of one setting, relative to the score of the truth."""

    gain: float
    error: float
    certificate: float


def draw(
    cells: Mapping[tuple[int, float, int], Cell],
    levels: Sequence[int],
    noises: Sequence[float],
    sizes: Sequence[int],
    path: Path,
) -> None:
    """Draw `cells`, by levels, noise and parameters."""
    style = {"font.size": 9, "axes.grid": True, "grid.alpha": 0.3}
    with mpl.rc_context(style):
        figure = Figure(figsize=(8.0, 3.8), layout="constrained")
        panels = figure.subplots(1, len(levels), sharey=True)
        for axes, count in zip(panels, levels, strict=True):
            for size, marker in zip(sizes, _MARKERS, strict=False):
                row = [cells[count, noise, size] for noise in noises]
                drawn = axes.errorbar(
                    noises,
                    [100 * cell.gain for cell in row],
                    [100 * cell.error for cell in row],
                    marker=marker,
                    markersize=4,
                    label=f"{size:,} parameters",
                )
                certificates = [100 * cell.certificate for cell in row]
                color = drawn.lines[0].get_color()
                axes.plot(noises, certificates, linestyle="--", linewidth=0.9, color=color)
            axes.set_xscale("log", base=2)
            axes.set_xticks(noises, [f"{noise:g}" for noise in noises])
            axes.set_yscale("symlog", linthresh=_SMALLEST)
            axes.set(xlabel="noise of a client, relative to what all share")
            axes.set_title(f"{count} levels")
        panels[0].set_ylabel("gain over the truth (%)")
        panels[0].set_ylim(bottom=0)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=len(sizes),
            title="best lie found; dashed: certificate",
            fontsize=8,
            title_fontsize=8,
        )
        save(figure, path)
