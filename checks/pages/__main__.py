"""``python -m checks.pages``: results that other code made, and quoted numbers that are wrong.

It lists the pages and tables of docs/results that the code as it is would not give again, and the
numbers in README and guides that are not what the results say. ``--fix`` writes the right numbers.
``--stamp PAGE ENTRY ...`` says of a page that is written by hand that its numbers were just made by
these functions or modules.
"""

import sys
from collections import Counter
from pathlib import Path

from checks.pages.quotes import PAGES, RESULTS, Definitions, findings, fix, unbound
from checks.pages.results import Reader
from checks.pages.status import CURRENT, all_results
from fedmerit.experiments.fingerprint import Sources, write_page


def main(arguments: list[str]) -> int:
    """Print what is wrong; return 1 if a quoted number is."""
    if "--stamp" in arguments:
        page, *entries = arguments[arguments.index("--stamp") + 1 :]
        write_page(Path(page), Path(page).read_text(encoding="utf-8"), Sources.of(*entries))
        return 0
    definitions, results = Definitions.read(), Reader()
    states = all_results()
    for status in states:
        if status.state != CURRENT:
            print(status)
    counted = Counter(status.state for status in states)
    print("results:", ", ".join(f"{count} {state}" for state, count in counted.items()))
    wrong = 0
    for page in (*PAGES, *RESULTS):
        found = list(findings(page, definitions, results))
        if page in PAGES:
            found += unbound(page, definitions)
        if "--fix" in arguments:
            fix(page, found)
            found = [finding for finding in found if finding.fixed is None]
        for finding in found:
            print(finding)
        wrong += len(found)
    print(f"quoted numbers: {wrong} to look at")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
