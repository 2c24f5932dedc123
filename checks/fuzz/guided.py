"""Guided fuzzing with atheris: ``python -m checks.fuzz.guided TARGET [options of libFuzzer]``.

atheris is no dependency of the project: install it beside the others to use this.
"""

import sys

import atheris

with atheris.instrument_imports(include=["fedmerit", "zipfile", "numpy.lib", "gzip"]):
    from checks.fuzz.targets import run


def main() -> None:
    """Fuzz one target until libFuzzer's options end it."""
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, lambda content: run(name, content))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
