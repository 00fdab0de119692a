"""The Cascaded Tanks benchmark: two water tanks, a pump, and overflow.

Schoukens, M., Mattsson, P., Wigren, T. and Noel, J.-P., 4TU.ResearchData,
doi 10.4121/12960104.v1, CC BY-SA 4.0.
"""

import hashlib
import io
import logging
import os
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sparsid.data.record import Record
from sparsid.datasets.benchmark import Benchmark
from sparsid.errors import DatasetUnavailable, FileFormatError, InputError
from sparsid.parallel.cache import cache_folder

URL = (
    "https://data.4tu.nl/file/d4810b78-6cdd-48fe-8950-9bd601e5f47f/"
    "3b697e42-01a4-4979-a370-813a456c36f5"
)
ARCHIVE = "CascadedTanksFiles.zip"
# The MAT comes first: it has full precision, the CSV five digits.
FILES = ("dataBenchmark.mat", "dataBenchmark.csv")
SHA256 = {
    ARCHIVE: "eb0fa05851e8a7136846c2e3b61fbef87def78d0852c86ab91b02ac5db541b51",
    FILES[0]: "cb2f88d4388be4d3f2a24c6402fba804976aac5f2e1f26cda59ea0a38d016eab",
    FILES[1]: "ef2388ed822f3aef4aa80d6b0f2b466dd80b361786b3eafc7a2957c31ea323a7",
}
SAMPLING_TIME = 4.0
# Seconds: a lecture hall without network must not wait for its fallback.
DOWNLOAD_LIMIT = 10.0
SOCKET_LIMIT = 5.0
CHUNK = 1 << 16

logger = logging.getLogger(__name__)


def load(*, offline: bool = False) -> Benchmark:
    """Return the benchmark from a local folder, the cache, or the archive.

    The folder is the one named by the environment variable SPARSID_DATA, or
    `cascaded_tanks` in it; SPARSID_CACHE names another folder for the cache. Every
    file is verified by its hash each time.

    Parameters
    ----------
    offline
        Do not try to download.
    """
    tried: list[str] = []
    local = _local_copy(tried)
    if local is not None:
        return _benchmark(local.name, _verified(local), "local copy")
    content = _from_cache(tried)
    if content is not None:
        return _benchmark(*_unpacked(content), source="cache")
    if offline:
        tried.append("download: not tried, because offline was asked for")
    else:
        content = _downloaded(tried)
        if content is not None:
            return _benchmark(*_unpacked(content), source="download")
    raise DatasetUnavailable(
        "The Cascaded Tanks data are not to be had: "
        + "; ".join(tried)
        + f". Set SPARSID_DATA to a folder with {FILES[0]}, or connect to the network."
    )


def _local_copy(tried: list[str]) -> Path | None:
    folder = os.environ.get("SPARSID_DATA")
    if not folder:
        tried.append("local copy: SPARSID_DATA is not set")
        return None
    for file in FILES:
        for path in (Path(folder, file), Path(folder, "cascaded_tanks", file)):
            if path.is_file():
                return path
    tried.append(f"local copy: no {' or '.join(FILES)} in {folder}")
    return None


def _verified(path: Path) -> bytes:
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[path.name]:
        raise InputError(
            f"{path} is not the benchmark file: its sha256 is {found}, expected "
            f"{SHA256[path.name]}. Replace it by the original, or unset SPARSID_DATA."
        )
    return content


def _from_cache(tried: list[str]) -> bytes | None:
    path = cache_folder() / ARCHIVE
    if not path.is_file():
        tried.append(f"cache: no {path}")
        return None
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256[ARCHIVE]:
        tried.append(f"cache: {path} is damaged")
        return None
    return content


def _downloaded(tried: list[str]) -> bytes | None:
    import pooch

    with _quiet(pooch.get_logger()):
        try:
            path = pooch.retrieve(
                URL,
                known_hash=f"sha256:{SHA256[ARCHIVE]}",
                fname=ARCHIVE,
                path=cache_folder(),
                downloader=_fetch,
            )
        # pooch reports a wrong hash as ValueError; all network trouble is OSError.
        except (OSError, ValueError) as error:
            tried.append(f"download: {error}")
            return None
    logger.info("Downloaded %s to %s.", URL, path)
    return Path(path).read_bytes()


def _fetch(url: str, output_file: Any, pooch: Any) -> None:
    """Write what is at url to a file, for pooch, within a total time limit.

    The time-outs of network libraries hold for each packet only, so that a server
    that sends one byte now and then would keep us waiting.
    """
    from urllib.request import Request, urlopen

    stop = time.monotonic() + DOWNLOAD_LIMIT
    request = Request(url, headers={"User-Agent": "sparsid"})
    with (
        urlopen(request, timeout=SOCKET_LIMIT) as answer,
        Path(output_file).open("wb") as file,
    ):
        while chunk := answer.read1(CHUNK):
            file.write(chunk)
            if time.monotonic() > stop:
                raise TimeoutError(f"no answer within {DOWNLOAD_LIMIT:g} s from {url}")


@contextmanager
def _quiet(talkative: logging.Logger) -> Iterator[None]:
    level = talkative.level
    talkative.setLevel(logging.ERROR)
    try:
        yield
    finally:
        talkative.setLevel(level)


def _unpacked(archive: bytes) -> tuple[str, bytes]:
    """Return name and content of the best data file in the archive."""
    with zipfile.ZipFile(io.BytesIO(archive)) as content:
        for file in FILES:
            for member in content.namelist():
                if member.rsplit("/", 1)[-1] == file:
                    data = content.read(member)
                    if hashlib.sha256(data).hexdigest() == SHA256[file]:
                        return file, data
    raise FileFormatError(
        f"{ARCHIVE} holds no {' or '.join(FILES)} with the expected sha256: delete it "
        f"from {cache_folder()} and load again."
    )


def _benchmark(file: str, content: bytes, source: str) -> Benchmark:
    names = ("uEst", "uVal", "yEst", "yVal")
    stream = io.BytesIO(content)
    if file.endswith(".mat"):
        from scipy.io import loadmat

        # The stubs of scipy know paths only.
        read: Any = loadmat
        variables = read(stream)
        u, u_test, y, y_test = (variables[name].ravel() for name in names)
    else:
        u, u_test, y, y_test = np.loadtxt(
            stream, delimiter=",", skiprows=1, usecols=range(4), unpack=True
        )
    estimation, test = (
        Record(
            inputs,
            outputs,
            SAMPLING_TIME,
            input_names="voltage",
            output_names="level",
            input_units="V",
            output_units="V",
            name=f"cascaded tanks, {part}",
        )
        for inputs, outputs, part in ((u, y, "estimation"), (u_test, y_test, "test"))
    )
    return Benchmark("cascaded-tanks", "Cascaded Tanks", estimation, source, test)
