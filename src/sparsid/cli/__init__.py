"""The command ``sparsid``: identify, predict, simulate, info."""

from sparsid.cli.app import main as main
