"""A session as one file: data, models, what was done, the script; and back."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from pathlib import Path, PurePosixPath

from sparsid.errors import FileFormatError, InputError

# Files of a model that go with a session.
KEPT_FILES = ("job.json", "outcome.json", "progress.json", "model.sparsid")
SCRIPT = "script.py"
PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
# Bytes that an archive may unpack to.
LARGEST = 4_000_000_000


def belongs(inside: PurePosixPath) -> bool:
    """Return whether a file of a session's folder is part of the session.

    What can be made again, and what only a running server needs, is not.
    """
    parts = inside.parts
    if not all(PLAIN.fullmatch(part) for part in parts):
        return False
    if parts == ("session.json",):
        return True
    if len(parts) != 3:
        return False
    return parts[0] == "uploads" or (parts[0] == "models" and parts[2] in KEPT_FILES)


def session_archive(folder: Path, script: str) -> bytes:
    """Return a session as one file.

    Parameters
    ----------
    folder
        Of the session.
    script
        Everything that was done, as Python.
    """
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(SCRIPT, script)
        for path in sorted(folder.rglob("*")):
            inside = PurePosixPath(path.relative_to(folder).as_posix())
            if path.is_file() and belongs(inside):
                archive.write(path, str(inside))
    return stream.getvalue()


def unpack(archive: Path, folder: Path) -> None:
    """Make the folder of a session from its one file.

    Parameters
    ----------
    folder
        It must not be there yet, and appears only when it is complete.
    """
    if folder.exists():
        raise InputError(
            f"{folder} is there already: open it with --session {folder}, or give "
            "another folder for the archive"
        )
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as packed:
            infos = [info for info in packed.infolist() if info.filename != SCRIPT]
            strange = [i for i in infos if not belongs(PurePosixPath(i.filename))]
            known = {info.filename for info in infos}
            if strange or "session.json" not in known:
                raise FileFormatError(
                    f"{archive} is no session of this app: give one that was saved "
                    "under 'Session as one file'"
                )
            if sum(info.file_size for info in infos) > LARGEST:
                raise FileFormatError(
                    f"{archive} would unpack to more than {LARGEST / 1e9:g} GB"
                )
            for info in infos:
                place = part / info.filename
                place.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(info) as source, place.open("wb") as target:
                    shutil.copyfileobj(source, target)
        part.rename(folder)
    except zipfile.BadZipFile as error:
        raise FileFormatError(f"{archive} is no archive: {error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
