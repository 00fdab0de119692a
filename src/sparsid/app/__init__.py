"""The local page: from a file to a believed model, without code."""
