"""Questions about data: files, steps, signals."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import sparsid
from sparsid.app import operations
from sparsid.app.places import plain
from sparsid.app.recipe import held_back
from sparsid.app.session import SUFFIXES
from sparsid.app.signals import View, ends, packed
from sparsid.data.record import Record
from sparsid.errors import InputError

if TYPE_CHECKING:
    from sparsid.app.server import Office

BINARY = "application/octet-stream"


def whole_query(request: Request, name: str, default: int) -> int:
    """Return a whole number of a question."""
    text = request.query_params.get(name, str(default))
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15:
        raise InputError(f"{name} is {text[:20]!r} but a whole number is needed")
    return int(text)


async def wishes(request: Request) -> dict[str, Any]:
    """Return the settings that a question carries."""
    given = await request.json()
    if not isinstance(given, dict):
        raise InputError("settings are needed, as an object")
    return given


def state_of(office: Office) -> dict[str, Any]:
    """Return all that the page shows besides signals."""
    session = office.session
    with session.lock:
        state = session.state
        told: dict[str, Any] = {
            "version": sparsid.__version__,
            "folder": session.folder.name,
            "suffixes": SUFFIXES,
            "files": state["files"],
            "split": state["split"],
            "steps": [{**s, "label": operations.label(s)} for s in state["steps"]],
            "raw": _kept(office, prepared=False),
            "prepared": _kept(office, prepared=True),
            "models": [
                {k: m[k] for k in ("id", "name", "settings")}
                | {"current": m["recipe"] == session.recipe()}
                for m in state["models"]
            ],
        }
    for model in told["models"]:
        model |= office.jobs.status(model["id"])
    answer: dict[str, Any] = plain(told)
    return answer


def _kept(office: Office, prepared: bool) -> dict[str, Any]:
    """Return the records, or why there are none."""
    session = office.session
    if not session.state["files"]:
        return {"records": []}
    try:
        records = session.records(prepared)
    except InputError as error:
        return {"records": [], "error": str(error)}
    split = session.state["split"]
    told = [
        {
            "name": record.name,
            "samples": len(record),
            "dt": record.dt,
            "start": record.start,
            "gaps": int(np.isnan(record.y).any(1).sum()),
            "test": held_back(split, k, len(record)) if prepared else [],
        }
        for k, record in enumerate(records)
    ]
    first = records[0]
    names = [*first.input_names, *first.output_names]
    units = [*first.input_units, *first.output_units]
    sides = ["input"] * first.n_inputs + ["output"] * first.n_outputs
    channels = [
        {"name": n, "unit": u, "side": s}
        for n, u, s in zip(names, units, sides, strict=True)
    ]
    return {"records": told, "channels": channels}


def record_view(
    record: Record, view: View, extra: dict[str, Any] | None = None
) -> bytes:
    """Return the channels of a record for a chart."""
    names = [f"{k}" for k in range(record.n_inputs + record.n_outputs)]
    columns = [*record.u.T, *record.y.T]
    series = {n: ends(c, view) for n, c in zip(names, columns, strict=True)}
    return packed(view_header(record.start, record.dt, len(record), view), series)


def view_header(start: int, dt: float, length: int, view: View) -> dict[str, Any]:
    """Return what a chart needs to know of the samples it gets."""
    told = {"start": start, "dt": dt, "length": length}
    return told | {"first": view.first, "stop": view.stop, "columns": view.columns}


def data_routes(office: Office) -> list[Route]:
    """Return the routes about data."""
    session = office.session

    async def state(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(state_of, office))

    async def upload(request: Request) -> Response:
        name = request.query_params.get("name", "")
        identity, place = await run_in_threadpool(session.new_file, name)
        try:
            with place.open("wb") as file:
                async for part in request.stream():
                    file.write(part)
        except BaseException:
            shutil.rmtree(place.parent, ignore_errors=True)
            raise
        await run_in_threadpool(session.add_file, identity, place, name)
        return await state(request)

    async def change_file(request: Request) -> Response:
        identity, given = request.path_params["file"], await wishes(request)
        await run_in_threadpool(session.change_file, identity, given)
        return await state(request)

    async def remove_file(request: Request) -> Response:
        await run_in_threadpool(session.remove_file, request.path_params["file"])
        return await state(request)

    async def add_step(request: Request) -> Response:
        await run_in_threadpool(session.add_step, await wishes(request))
        return await state(request)

    async def remove_step(request: Request) -> Response:
        await run_in_threadpool(session.remove_step, request.path_params["number"])
        return await state(request)

    async def set_split(request: Request) -> Response:
        await run_in_threadpool(session.set_split, await wishes(request))
        return await state(request)

    async def signals(request: Request) -> Response:
        def answer() -> bytes:
            prepared = request.query_params.get("what") != "raw"
            records = session.records(prepared)
            k = whole_query(request, "record", 0)
            if not 0 <= k < len(records):
                raise InputError("there is no such record")
            return record_view(records[k], asked_view(request, len(records[k])))

        return Response(await run_in_threadpool(answer), media_type=BINARY)

    async def advice(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(_advice, office))

    return [
        Route("/api/state", state, methods=["GET"]),
        Route("/api/files", upload, methods=["POST"]),
        Route("/api/files/{file}", change_file, methods=["PATCH"]),
        Route("/api/files/{file}", remove_file, methods=["DELETE"]),
        Route("/api/steps", add_step, methods=["POST"]),
        Route("/api/steps/{number:int}", remove_step, methods=["DELETE"]),
        Route("/api/split", set_split, methods=["PUT"]),
        Route("/api/signals", signals, methods=["GET"]),
        Route("/api/advice", advice, methods=["GET"]),
    ]


def asked_view(request: Request, length: int) -> View:
    """Return the range of samples that a chart asks for."""
    first = whole_query(request, "first", 0)
    stop = whole_query(request, "stop", length)
    return View.of(length, first, stop, whole_query(request, "width", 1000))


def _advice(office: Office) -> list[dict[str, Any]]:
    """Return what the records say before any fit, in words."""
    session = office.session
    with session.lock:
        estimation, _ = session.kitchen.parts(session.recipe())
    found = []
    for record in estimation:
        whose = f"{record.name}: " if len(estimation) > 1 else ""
        for finding in record.advice().findings:
            about = f"{finding.channel}: " if finding.channel else ""
            told = {"severity": finding.severity, "remedy": finding.remedy}
            found.append({**told, "text": f"{whose}{about}{finding.text}"})
    return found
