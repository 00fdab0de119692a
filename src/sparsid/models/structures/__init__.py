"""Structures of the canonical form, one file each: what is fixed and what is free."""
