"""Where downloads and compiled programs are kept between runs."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder named by SPARSID_CACHE, or else the user's cache folder."""
    folder = os.environ.get("SPARSID_CACHE")
    if folder:
        return Path(folder)
    import pooch

    return Path(pooch.os_cache("sparsid"))
