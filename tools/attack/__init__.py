"""Attacks on the program: malformed inputs, hostile model files, kills."""
