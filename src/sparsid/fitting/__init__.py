"""Algorithm 1 and what goes beyond it: from records and settings to a fitted model."""
