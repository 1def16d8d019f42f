"""`python -m rmsweb`."""

from rmsweb.cli import main

if __name__ == "__main__":  # a process that a demo starts imports this module too
    main()
