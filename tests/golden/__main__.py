"""Record anew what is another method today: ``python -m tests.golden``; say why in test_golden."""

import json
from pathlib import Path

from tests.test_golden import AGAIN, GOLDEN, NUMBERS, ROUNDS, facts, rounds_of, scored

FILE = Path(__file__).parent / "golden.json"
COLUMNS = ("client", *NUMBERS, "flagged", "reason", "reward", "num_examples")


def recorded(name: str) -> list[dict[str, object]]:
    """The rounds of a federation, numbers to the last bit."""
    rounds = []
    for record, model in zip(*rounds_of(name), strict=True):
        known = facts(record)
        for client in known["clients"]:
            client |= {n: client[n] and float(client[n]).hex() for n in NUMBERS}
        clients = [[client[n] for n in COLUMNS] for client in known["clients"]]
        rounds.append({**known, "clients": clients, "model": model})
    return rounds


def main() -> None:
    for name in AGAIN["scores"]:
        AGAIN["scores"][name] = {case: scored(name, case) for case in ROUNDS}
        GOLDEN["scores"].pop(name, None)
    for name in AGAIN["federations"]:
        AGAIN["federations"][name] = recorded(name)
    lines = [f'"{key}":{json.dumps(value, separators=(",", ":"))}' for key, value in GOLDEN.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
