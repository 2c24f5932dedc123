"""`python -m fedmerit` is `fedmerit`."""

from fedmerit.cli import main

if __name__ == "__main__":
    main()
