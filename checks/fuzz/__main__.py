"""Mutate valid inputs of every parser for a while: ``python -m checks.fuzz [seconds] [target]``.

Findings are written to tests/corpus/<target>/, where a test gives them to the parser for ever.
`checks.fuzz.guided` does the same with atheris, which looks at the branches that an input takes.
"""

import hashlib
import random
import sys
import time
import traceback
from pathlib import Path

from checks import ROOT
from checks.fuzz.targets import TARGETS, run, seeds

CORPUS = ROOT / "tests" / "corpus"
_ODD = (
    *(b"\x00" * 4, b"\xff" * 4, b"\xff\xff\xff\x7f", b"NaN", b"1e999", b"-1", b"PK\x01\x02", b"'"),
    *(b"9" * 19, b"9" * 25, b"9" * 5000, "\N{SUPERSCRIPT TWO}".encode(), b"\r", b'"', b"\t"),
)


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Change, cut, repeat or insert a few bytes."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        where = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if where < len(data):
                data[where] = rng.randrange(256)
            case 1 if where < len(data):
                data[where] ^= 1 << rng.randrange(8)
            case 2:
                data[where:where] = rng.choice(_ODD)
            case 3:
                data[where : where + 4] = rng.choice(_ODD)
            case 4:
                del data[where : where + rng.choice((1, 4, 64, 100_000))]
            case _:
                data[where:where] = data[: rng.randrange(64)]
    return bytes(data)


def hunt(name: str, seconds: float, seed: int = 0) -> tuple[int, dict[str, bytes]]:
    """Return how many inputs were tried, and one input for each kind of finding."""
    rng, tried = random.Random(f"{seed} {name}"), 0
    start, pool, found = time.monotonic(), seeds(name), {}
    while time.monotonic() - start < seconds:
        content = mutate(rng.choice(pool), rng)
        tried += 1
        try:
            run(name, content)
        except Exception as error:  # whatever it is: that is what is looked for
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "fedmerit" in Path(frame.filename).parts][-1:]
            place = f"{Path(ours[0].filename).name}:{ours[0].lineno}" if ours else "outside"
            found.setdefault(f"{type(error).__name__} at {place}", content)
    return tried, found


def main(seconds: float = 20.0, wanted: str = "") -> int:
    """Hunt in every parser; return the number of findings."""
    findings = 0
    for name in TARGETS:
        if wanted not in ("", name):
            continue
        tried, found = hunt(name, seconds)
        print(f"{name}: {tried} inputs, {len(found)} findings", flush=True)
        for error, content in found.items():
            digest = hashlib.sha256(content).hexdigest()[:12]
            path = CORPUS / name / digest
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            print(f"  {digest}: {error}")
        findings += len(found)
    return findings


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(1 if main(float(arguments[0]) if arguments else 20.0, *arguments[1:2]) else 0)
