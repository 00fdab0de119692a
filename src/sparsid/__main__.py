"""``python -m sparsid``, the same as the command ``sparsid``."""

from sparsid.cli.app import main

if __name__ == "__main__":
    main()
