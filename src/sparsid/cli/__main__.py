"""``python -m sparsid.cli``, the same as the command ``sparsid``."""

from sparsid.cli.app import main

main()
