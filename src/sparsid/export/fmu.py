"""A model as FMUs for co-simulation, FMI 2.0 and FMI 3.0, from the C source.

The sources are always inside. A binary for this platform is, too, if there is a C
compiler. All names in it are hidden but those of the FMI: hosts have functions called
``step`` of their own.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
import sys
import uuid
import zipfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from sparsid.errors import InputError
from sparsid.export.c99 import source
from sparsid.export.design import Design
from sparsid.export.text import rendered

# Folder of binaries by operating system and processor: FMI 2.0 and 3.0.
PLATFORMS = {
    ("linux", "x86_64"): ("linux64", "x86_64-linux"),
    ("linux", "aarch64"): ("aarch64-linux", "aarch64-linux"),
    ("darwin", "x86_64"): ("darwin64", "x86_64-darwin"),
    ("darwin", "arm64"): ("aarch64-darwin", "aarch64-darwin"),
}
FLAGS = ("-std=c99", "-O2", "-fPIC", "-fvisibility=hidden")
# Files of a ZIP archive have a time: always the same, so that the same model gives the
# same file.
DAY = (2000, 1, 1, 0, 0, 0)


def fmu_files(design: Design) -> dict[str, str | bytes]:
    """Return both FMUs and a program that checks them."""
    return {
        f"{design.name}.fmu": _fmu(design, 2),
        f"{design.name}_fmi3.fmu": _fmu(design, 3),
        "check.py": rendered("check_fmu.py", design),
    }


def _fmu(design: Design, version: int) -> bytes:
    """Return an FMU of a version of the FMI."""
    core, wrapper = f"{design.name}.c", f"fmi{version}.c"
    sources = {
        f"{design.name}.h": rendered("model.h", design),
        core: source(design),
        "fmu.h": rendered("fmu.h", design),
    }
    names = _variables(design)
    # What an importer compares: any other model has another one.
    digest = hashlib.sha256("".join([*sources.values(), *names]).encode()).hexdigest()
    token = f"{{{uuid.uuid5(uuid.NAMESPACE_OID, digest)}}}"
    sources[wrapper] = rendered(wrapper, design, token=token)
    description = rendered(
        f"fmi{version}.xml",
        design,
        token=token,
        names=names,
        units=_units(design),
        sources=[core, wrapper],
    )
    files: dict[str, str | bytes] = {"modelDescription.xml": description}
    files |= {f"sources/{name}": text for name, text in sources.items()}
    if version == 3:
        build = rendered("build.xml", design, sources=[core, wrapper])
        files["sources/buildDescription.xml"] = build
    files |= _binary(design.name, sources, [core, wrapper], version)
    return _zipped(files)


def _variables(design: Design) -> list[str]:
    """Return the names of inputs, outputs, start values and time, each once."""
    channels, found = design.table.channels, ["time"]
    starts = [f"start[{k + 1}]" for k in range(len(design.programs.own_start))]
    for name in (*channels.input_names, *channels.output_names, *starts):
        plain = re.sub(r"\s+", " ", name).strip() or "unnamed"
        fresh, number = plain, 1
        while fresh in found:
            number += 1
            fresh = f"{plain} {number}"
        found.append(fresh)
    return [*found[1:], "time"]


def _units(design: Design) -> list[str]:
    """Return the unit of every input and output, empty if it has none."""
    channels = design.table.channels
    units = (*channels.input_units, *channels.output_units)
    return [re.sub(r"\s+", " ", unit).strip() for unit in units]


def _binary(
    name: str, sources: dict[str, str], units: list[str], version: int
) -> dict[str, str | bytes]:
    """Return the compiled library by its path, if this platform allows it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    folders = PLATFORMS.get((sys.platform, platform.machine()))
    if compiler is None or folders is None:
        return {}
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    link = ["-dynamiclib"] if suffix == ".dylib" else ["-shared", "-Wl,-Bsymbolic"]
    with TemporaryDirectory() as room:
        for path, text in sources.items():
            (Path(room) / path).write_text(text, encoding="utf-8")
        command = [compiler, *FLAGS, *link, *units, "-lm", "-o", f"model{suffix}"]
        done = subprocess.run(command, cwd=room, capture_output=True, text=True)
        if done.returncode:
            raise InputError(
                f"{compiler} cannot compile the FMU: {done.stderr.strip()[:500]}; mend "
                "the compiler, or take it out of PATH for an FMU of sources alone"
            )
        library = (Path(room) / f"model{suffix}").read_bytes()
    return {f"binaries/{folders[version - 2]}/{name}{suffix}": library}


def _zipped(files: dict[str, str | bytes]) -> bytes:
    """Return an archive of files."""
    room = BytesIO()
    with zipfile.ZipFile(room, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, DAY)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return room.getvalue()
