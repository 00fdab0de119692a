"""Questions about the use of models: runs, linear models, files to take away."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sparsid.app.data_routes import (
    BINARY,
    asked_view,
    view_header,
    whole_query,
    wishes,
)
from sparsid.app.places import read_json, write_json
from sparsid.app.session import SUFFIXES
from sparsid.app.signals import BAND, View, ends, packed
from sparsid.data.files import write_csv
from sparsid.errors import InputError

if TYPE_CHECKING:
    from sparsid.app.server import Office

Values = NDArray[np.float64]
EXPORTS = ("numpy", "c", "fmu", "casadi", "onnx", "st")


def banded(
    name: str, mean: Values, std: Values, view: View
) -> dict[str, tuple[Values, Values]]:
    """Return a forecast and its 95 % band for a chart."""
    low, _ = ends(mean - BAND * std, view)
    _, high = ends(mean + BAND * std, view)
    return {name: ends(mean, view), f"{name} band": (low, high)}


def attachment(body: bytes, name: str, kind: str) -> Response:
    """Return a file to be saved, never to be shown."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name)
    headers = {"content-disposition": f'attachment; filename="{safe}"'}
    return Response(body, media_type=kind, headers=headers)


def use_routes(office: Office) -> list[Route]:
    """Return the routes about the use of models."""
    session, jobs, desk = office.session, office.jobs, office.desk

    def chosen(request: Request) -> dict[str, Any]:
        return session.model(request.path_params["model"])

    async def channels(request: Request) -> Response:
        model = chosen(request)
        first = await run_in_threadpool(_first_record, office, model)
        return JSONResponse(first)

    async def simulate(request: Request) -> Response:
        model, given = chosen(request), await wishes(request)
        wish = {**given, "do": "simulate", "model": model["id"]}
        found = await run_in_threadpool(desk.ask, wish)
        write_json(jobs.folder(model["id"]) / "run.json", found)
        return JSONResponse(found)

    async def upload(request: Request) -> Response:
        folder = jobs.folder(chosen(request)["id"])
        suffix = Path(request.query_params.get("name", "")).suffix.lower()
        if suffix not in SUFFIXES:
            raise InputError(
                f"the file has the suffix {suffix!r}, but only {', '.join(SUFFIXES)} "
                "are known"
            )
        for old in folder.glob("inputs.*"):
            old.unlink()
        (folder / f"inputs{suffix}").write_bytes(await request.body())
        return JSONResponse({})

    async def run(request: Request) -> Response:
        body = await run_in_threadpool(_run_view, office, request)
        return Response(body, media_type=BINARY)

    async def run_table(request: Request) -> Response:
        model = chosen(request)
        body = await run_in_threadpool(_run_table, office, model)
        return attachment(body, f"{model['name']}_simulated.csv", "text/csv")

    at = "/api/models/{model}"
    return [
        Route(f"{at}/channels", channels, methods=["GET"]),
        Route(f"{at}/simulate", simulate, methods=["POST"]),
        Route(f"{at}/inputs", upload, methods=["POST"]),
        Route(f"{at}/run", run, methods=["GET"]),
        Route(f"{at}/run.csv", run_table, methods=["GET"]),
        *_file_routes(office),
    ]


def _file_routes(office: Office) -> list[Route]:
    """Return the routes to linear models and to files to take away."""
    session, jobs, desk = office.session, office.jobs, office.desk

    def chosen(request: Request) -> dict[str, Any]:
        return session.model(request.path_params["model"])

    async def ask(wish: dict[str, Any]) -> Any:
        return await run_in_threadpool(desk.ask, wish)

    async def linearise(request: Request) -> Response:
        model, given = chosen(request), await wishes(request)
        return JSONResponse(
            await ask({"do": "linearise", "model": model["id"], "at": given.get("at")})
        )

    async def export(request: Request) -> Response:
        model, to = chosen(request), (await wishes(request)).get("to")
        if to not in EXPORTS:
            raise InputError(f"to must be one of {', '.join(EXPORTS)}")
        await ask({"do": "export", "model": model["id"], "to": to})
        body = (jobs.folder(model["id"]) / "export.zip").read_bytes()
        return attachment(body, f"{model['name']}_{to}.zip", "application/zip")

    async def report(request: Request) -> Response:
        model, recipe = chosen(request), session.recipe()
        wish = {"do": "report", "model": model["id"], "recipe": recipe}
        await ask(wish | {"title": model["name"]})
        body = (jobs.folder(model["id"]) / "report.html").read_bytes()
        return attachment(body, f"{model['name']}.html", "text/html")

    async def file(request: Request) -> Response:
        model = chosen(request)
        place = jobs.folder(model["id"]) / "model.sparsid"
        if not place.exists():
            raise InputError("the fit of this model has not ended yet")
        return attachment(place.read_bytes(), f"{model['name']}.sparsid", BINARY)

    at = "/api/models/{model}"
    return [
        Route(f"{at}/linearise", linearise, methods=["POST"]),
        Route(f"{at}/export", export, methods=["POST"]),
        Route(f"{at}/report", report, methods=["POST"]),
        Route(f"{at}/file", file, methods=["GET"]),
    ]


def _first_record(office: Office, model: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs of a model with the ranges that it has seen."""
    with office.session.lock:
        estimation, _ = office.session.kitchen.parts(model["recipe"])
    first = estimation[0]
    told = []
    for k, name in enumerate(first.input_names):
        known = [
            float(v)
            for r in estimation
            for v in (np.nanmin(r.u[:, k]), np.nanmax(r.u[:, k]))
        ]
        mean = float(np.nanmean(first.u[:, k]))
        told.append(
            {"name": name, "unit": first.input_units[k], "mean": mean}
            | {"low": min(known), "high": max(known)}
        )
    outputs = zip(first.output_names, first.output_units, strict=True)
    return {
        "inputs": told,
        "outputs": [{"name": n, "unit": u} for n, u in outputs],
        "dt": first.dt,
        "samples": len(first),
    }


def _run_arrays(office: Office, identity: str) -> dict[str, Values]:
    place = office.jobs.folder(identity) / "run.npz"
    if not place.exists():
        raise InputError("nothing was simulated with this model yet")
    with np.load(place) as found:
        return {name: found[name] for name in found.files}


def _run_view(office: Office, request: Request) -> bytes:
    """Return the last simulation of a model for a chart."""
    identity = office.session.model(request.path_params["model"])["id"]
    arrays = _run_arrays(office, identity)
    told = read_json(office.jobs.folder(identity) / "run.json", {"dt": 1.0})
    output = whole_query(request, "output", 0)
    if not 0 <= output < arrays["mean"].shape[1]:
        raise InputError("there is no such output")
    length = len(arrays["mean"])
    view = asked_view(request, length)
    series = {f"u{k}": ends(c, view) for k, c in enumerate(arrays["u"].T)}
    series |= banded("run", arrays["mean"][:, output], arrays["std"][:, output], view)
    return packed(view_header(0, told["dt"], length, view), series)


def _run_table(office: Office, model: dict[str, Any]) -> bytes:
    """Return the last simulation of a model as CSV."""
    arrays = _run_arrays(office, model["id"])
    told = _first_record(office, model)
    columns: dict[str, Values] = {}
    columns["time"] = np.arange(len(arrays["u"])) * told["dt"]
    for k, channel in enumerate(told["inputs"]):
        columns[channel["name"]] = arrays["u"][:, k]
    for k, channel in enumerate(told["outputs"]):
        columns[channel["name"]] = arrays["mean"][:, k]
        columns[f"{channel['name']} std"] = arrays["std"][:, k]
    units = {c["name"]: c["unit"] for c in [*told["inputs"], *told["outputs"]]}
    place = office.jobs.folder(model["id"]) / "run.csv"
    write_csv(place, columns, units)
    return place.read_bytes()
