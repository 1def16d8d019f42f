"""`python -m rmsweb`."""

from rmsweb.cli import main

main()
