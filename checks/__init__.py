"""What is run by hand, beside the package: speed, studies, faults, fuzzing, mutants, pictures."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
