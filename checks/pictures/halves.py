"""Draw what a judge is asked: ``python -m checks.pictures.halves``."""

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from checks import ROOT
from fedmerit.experiments.picture import save

LEFT, RIGHT, JUDGE, PLAIN = "#2a78b5", "#c8553d", "#3d8b5f", "#777777"


def main() -> None:
    """Draw the picture."""
    figure = Figure(figsize=(8.0, 2.9))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set(xlim=(0, 16), ylim=(0, 5.8))
    axis.axis("off")
    axis.text(1.6, 5.3, "updates of the others", ha="center", size=9)
    left = (0, 2, 3)
    for place in range(6):
        x, y = 0.6 + 1.0 * (place % 3), 4.4 - 1.1 * (place // 3)
        shade = LEFT if place in left else RIGHT
        _box(axis, x, y, 0.8, 0.7, f"u{place + 1}", shade)
    _box(axis, 5.6, 3.9, 3.4, 0.9, "model + mean of one half", LEFT)
    _box(axis, 5.6, 2.5, 3.4, 0.9, "model + mean of the other", RIGHT)
    _box(axis, 5.6, 1.1, 3.4, 0.9, "the new model", PLAIN)
    for y in (4.35, 2.95):
        _arrow(axis, (3.6, 3.9), (5.5, y))
    _box(axis, 11.0, 2.3, 1.9, 1.3, "a client\njudges on\nits own data", JUDGE)
    for y in (4.35, 2.95, 1.55):
        _arrow(axis, (9.1, y), (10.9, 2.95))
    _arrow(axis, (13.0, 2.95), (13.9, 2.95))
    axis.text(14.9, 2.95, "0.91\n0.87\n0.90", ha="center", va="center", size=9)
    axis.text(
        8, 0.35, "the difference 0.91 - 0.87, over many judges and rounds: who was in which half?",
        ha="center", size=9,
    )  # fmt: skip
    save(figure, ROOT / "docs" / "pictures" / "halves.svg")


def _box(axis: object, x: float, y: float, width: float, height: float, text: str, shade: str):
    patch = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0.05", facecolor=shade + "22", edgecolor=shade
    )
    axis.add_patch(patch)
    axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", size=8)


def _arrow(axis: object, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, color="#555555", lw=0.9)
    )


if __name__ == "__main__":
    main()
