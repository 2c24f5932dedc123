"""Tables of docs/results/din.md from finished runs.

`python -m checks.studies.din_statements FOLDER kuairand` reads what `fedmerit reproduce din-...
--out FOLDER --dataset kuairand` left there: the paper's statements, and what worthless data is
paid.
"""

import sys
from pathlib import Path

from fedmerit.experiments.clicks import LABEL_NAMES
from fedmerit.experiments.runner import Outcome, read_outcomes
from fedmerit.experiments.statements import markdown, statements


def mean(found: list[Outcome], field: str) -> float:
    return sum(float(getattr(outcome, field)) for outcome in found) / len(found)


def labels(path: Path) -> str:
    lines = ["| score | accounts with | score, honest | score, theirs | weight, relative | AUC |"]
    lines.append("|---|---|---:|---:|---:|---:|")
    outcomes = read_outcomes(path)
    for line in dict.fromkeys(outcome.line for outcome in outcomes):
        for number, name in enumerate(LABEL_NAMES, start=1):
            found = [o for o in outcomes if (o.line, o.value) == (line, number)]
            ratio = mean(found, "dishonest_weight") / mean(found, "honest_weight")
            lines.append(
                f"| {line} | {name} | {mean(found, 'honest_score'):.4f} "
                f"| {mean(found, 'dishonest_score'):.4f} | {ratio:.3f} "
                f"| {mean(found, 'accuracy'):.4f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    folder, dataset = Path(sys.argv[1]), sys.argv[2]
    for path in sorted(folder.glob(f"din-*/{dataset}")):
        print(markdown(statements(path)) if statements(path) else "", end="")
        found = path / "din-labels.csv"
        if found.is_file():
            print(labels(found))


if __name__ == "__main__":
    main()
