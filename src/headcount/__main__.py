"""``python -m headcount``."""

from headcount.cli.app import main

if __name__ == "__main__":
    main()
