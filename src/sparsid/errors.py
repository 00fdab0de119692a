"""Errors raised on purpose: their messages are written for the user."""


class InputError(ValueError):
    """Bad data or bad settings: the message says what was expected instead."""


class FileFormatError(InputError):
    """A file that is damaged, or of another kind than its name says."""


class DatasetUnavailable(RuntimeError):  # noqa: N818 (a state, not a fault)
    """A dataset that is neither on this computer nor to be downloaded now."""
