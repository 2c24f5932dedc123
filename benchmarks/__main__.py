"""Run the benchmarks and write docs/results/performance.md: ``python -m benchmarks``."""

from benchmarks import scoring
from benchmarks.timing import ROOT, machine


def main() -> None:
    lines = [
        "# Performance",
        "",
        f"Written by `make bench` on {machine()}. Everything runs in one process, in turns; the",
        "figures are ratios of medians. They hold for this machine and are not comparable with",
        "figures from another run.",
        "",
        *scoring.measure(),
        "",
    ]
    target = ROOT / "docs" / "results" / "performance.md"
    target.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
