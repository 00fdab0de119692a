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


def keep_compiled_programs() -> None:
    """Let JAX keep what it compiles between runs, in the cache folder.

    JAX's own variables have precedence. To be called before JAX is imported.
    """
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "compiled"))
    # JAX would only keep what took a second; we have many small programs.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
