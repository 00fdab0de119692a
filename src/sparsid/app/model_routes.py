"""Questions about models: fits, figures, forecasts, use."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sparsid.app import operations
from sparsid.app.archive import session_archive
from sparsid.app.data_routes import (
    BINARY,
    asked_view,
    state_of,
    view_header,
    whole_query,
    wishes,
)
from sparsid.app.places import plain, read_json
from sparsid.app.script import script
from sparsid.app.signals import ends, packed
from sparsid.app.tasks import evaluation_folder
from sparsid.app.use_routes import attachment, banded, use_routes
from sparsid.errors import InputError

if TYPE_CHECKING:
    from sparsid.app.server import Office

Values = NDArray[np.float64]
STRUCTURES = ("auto", "linear", "linear first", "cascade", "even output")
KINDS = ("free_run", "one_step")
# Seconds between looks at running fits; forecasts kept in memory.
LOOK_EVERY, KEPT_FORECASTS = 0.5, 8
# Most states or neurons.
LARGEST_COUNT = 100


def checked_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a fit from the page, or refuse them."""
    structure = given.get("structure", "auto")
    if structure not in STRUCTURES:
        raise InputError(f"structure must be one of {', '.join(STRUCTURES)}")
    found: dict[str, Any] = {"structure": structure}
    for name in ("states", "neurons"):
        if given.get(name) is not None:
            found[name] = operations.whole(given, name)
            if not 1 <= found[name] <= LARGEST_COUNT:
                raise InputError(f"{name} must be from 1 to {LARGEST_COUNT}")
    if given.get("budget") is not None:
        found["budget"] = operations.positive(given, "budget")
    found["seed"] = 0
    if given.get("seed") is not None:
        found["seed"] = operations.whole(given, "seed")
        if not 0 <= found["seed"] < 2**32:
            raise InputError("seed must be from 0 to 4294967295")
    return found


class Forecasts:
    """Forecasts of models over test parts, read from their folders."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self._kept: OrderedDict[Path, dict[str, Values]] = OrderedDict()

    def folder(self, identity: str) -> Path:
        """Return the folder of a model's evaluation on what is held back now."""
        session = self.office.session
        with session.lock:
            session.model(identity)
            recipe = session.recipe()
        folder = evaluation_folder(self.office.jobs.folder(identity), recipe)
        # Written last.
        if not (folder / "evaluation.json").exists():
            wish = {"do": "evaluate", "model": identity, "recipe": recipe}
            self.office.desk.ask(wish)
        return folder

    def evaluation(self, identity: str) -> Any:
        """Return the figures of a model."""
        return read_json(self.folder(identity) / "evaluation.json")

    def arrays(self, identity: str) -> dict[str, Values]:
        """Return the forecasts of a model."""
        folder = self.folder(identity)
        if folder not in self._kept:
            with np.load(folder / "forecast.npz") as found:
                self._kept[folder] = {name: found[name] for name in found.files}
            while len(self._kept) > KEPT_FORECASTS:
                self._kept.popitem(last=False)
        return self._kept[folder]

    def view(self, request: Request) -> bytes:
        """Return what was measured, and the runs of models with bands."""
        query = request.query_params
        identities = query.get("models", "").split(",")
        kind = query.get("kind", KINDS[0])
        if kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}")
        output, k = (whole_query(request, n, 0) for n in ("output", "record"))
        told = self.evaluation(identities[0])
        if not (0 <= k < len(told["records"]) and 0 <= output < len(told["outputs"])):
            raise InputError("there is no such record or output")
        place = told["records"][k]
        view = asked_view(request, place["samples"])
        measured = self.arrays(identities[0])[f"y_{k}"][:, output]
        series = {"measured": ends(measured, view)}
        for identity in identities:
            arrays = self.arrays(identity)
            parts = [arrays[f"{kind}_{p}_{k}"][:, output] for p in ("mean", "std")]
            series |= banded(identity, parts[0], parts[1], view)
            series[f"{identity} error"] = ends(measured - parts[0], view)
        header = view_header(place["start"], place["dt"], place["samples"], view)
        return packed(header, series)


def done_models(office: Office) -> list[dict[str, Any]]:
    """Return the models whose fit has ended well."""
    found = []
    for model in office.session.state["models"]:
        status = office.jobs.status(model["id"])
        if status["state"] == "done":
            found.append({**model, "stopped": status["stopped"]})
    return found


def session_script(office: Office) -> str:
    """Return everything that was done, as Python."""
    with office.session.lock:
        recipe = office.session.recipe()
        models = done_models(office)
    if not models and not recipe["files"]:
        raise InputError("nothing was done yet: drop a file on the first screen")
    return script(models, recipe)


def model_routes(office: Office) -> list[Route]:
    """Return the routes about models."""
    session, jobs = office.session, office.jobs

    async def state(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(state_of, office))

    async def begin(request: Request) -> Response:
        given = await wishes(request)
        settings, name = checked_settings(given), given.get("name") or ""
        await run_in_threadpool(session.add_model, settings, name)
        await run_in_threadpool(jobs.tend)
        answer = await state(request)
        # Whoever begins a fit will ask about it.
        answer.background = BackgroundTask(office.desk.ask, {"do": "get ready"})
        return answer

    async def stop(request: Request) -> Response:
        identity = session.model(request.path_params["model"])["id"]
        await run_in_threadpool(jobs.stop, identity)
        return await state(request)

    async def rename(request: Request) -> Response:
        given = await wishes(request)
        session.rename_model(request.path_params["model"], given.get("name"))
        return await state(request)

    async def remove(request: Request) -> Response:
        identity = session.model(request.path_params["model"])["id"]
        jobs.check_idle(identity)
        await run_in_threadpool(session.remove_model, identity)
        return await state(request)

    async def follow(_: Request) -> Response:
        return StreamingResponse(_news(office), media_type="application/x-ndjson")

    return [
        Route("/api/models", begin, methods=["POST"]),
        Route("/api/models/{model}/stop", stop, methods=["POST"]),
        Route("/api/models/{model}", rename, methods=["PATCH"]),
        Route("/api/models/{model}", remove, methods=["DELETE"]),
        Route("/api/news", follow, methods=["GET"]),
        *_result_routes(office),
        *use_routes(office),
    ]


def _result_routes(office: Office) -> list[Route]:
    """Return the routes about what was found."""
    session, forecasts = office.session, Forecasts(office)

    async def evaluation(request: Request) -> Response:
        identity = request.path_params["model"]
        return JSONResponse(await run_in_threadpool(forecasts.evaluation, identity))

    async def forecast(request: Request) -> Response:
        body = await run_in_threadpool(forecasts.view, request)
        return Response(body, media_type=BINARY)

    async def as_python(_: Request) -> Response:
        text = await run_in_threadpool(session_script, office)
        return attachment(text.encode(), "script.py", "text/x-python")

    async def archive(_: Request) -> Response:
        text = await run_in_threadpool(session_script, office)
        body = await run_in_threadpool(session_archive, session.folder, text)
        return attachment(body, f"{session.folder.name}.zip", "application/zip")

    return [
        Route("/api/models/{model}/evaluation", evaluation, methods=["GET"]),
        Route("/api/forecast", forecast, methods=["GET"]),
        Route("/api/script", as_python, methods=["GET"]),
        Route("/api/archive", archive, methods=["GET"]),
    ]


async def _news(office: Office) -> AsyncIterator[str]:
    """Yield the state of all fits, a line whenever it changes, while any is running."""
    last = ""
    while True:
        told = await run_in_threadpool(
            lambda: [
                {"id": m["id"], **office.jobs.status(m["id"])}
                for m in office.session.state["models"]
            ]
        )
        line = json.dumps(plain(told))
        if line != last:
            yield line + "\n"
        last = line
        if all(m["state"] in ("done", "failed") for m in told):
            return
        await asyncio.sleep(LOOK_EVERY)
