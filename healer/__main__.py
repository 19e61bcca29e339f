"""`python -m healer` is `healer`."""

from healer.cli import main

if __name__ == "__main__":
    main()
