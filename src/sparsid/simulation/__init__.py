"""Models that simulate, fitted to their free run: linear first."""
