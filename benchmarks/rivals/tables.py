"""From the rows of a comparison to its summary and tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]

# -- what it comes to ----------------------------------------------------------------


def summary(rows: list[Row], planned: Iterable[str] = ()) -> Row:
    """Return the comparisons, each with its times, errors and ratios.

    Parameters
    ----------
    planned
        Names of all jobs: those without a row are named as not run.
    """
    pairs = (("wide", "wide"), ("small", "small"), ("small", "short"))
    networks = [one_step(rows, *pair) for pair in pairs]
    found = {
        "one_step": [found for found in networks if found["starts"] and found["fits"]],
        "free_run": free_run(rows),
        "packages": packages(rows),
        "evidence": evidence(rows),
    }
    failures = [
        {"job": row["job"], "round": row["round"], "failed": row["failed"]}
        for row in rows
        if "failed" in row
    ]
    have = {row["job"] for row in rows}
    not_run = [name for name in planned if name not in have]
    return {**found, "failures": failures, "not_run": not_run}


def one_step(rows: list[Row], which: str, own: str) -> Row:
    """Compare the rendering with sparsid's network, a start each."""
    rival, ours = _of(rows, f"torch-{which}"), _of(rows, f"sparsid-{own}")
    name = "-".join(map(str, rival[0]["settings"]["widths"])) if rival else ""
    limit = ours[0].get("settings", {}).get("max_cycles") if ours else None
    rival_cpu = _mean(r["fit"]["cpu_seconds"] for r in rival)
    result: Row = {
        "network": f"{name}, sparsid: {limit} cycles" if limit else name,
        "starts": len(rival),
        "fits": len(ours),
        "rival_cpu_seconds": rival_cpu,
        "rival_wall_seconds": _mean(r["fit"]["wall_seconds"] for r in rival),
        "rival_one_step_rmse": _mean(r["one_step_rmse"] for r in rival),
        "rival_free_run_B_rmse": _mean(r["free_run_B_rmse"] for r in rival),
        "rival_kept": _mean(r["kept"] for r in rival),
        "sparsid_one_step_rmse": _mean(f["one_step_rmse"] for f in _fits(ours)),
        "sparsid_free_run_B_rmse": _mean(f["free_run_B_rmse"] for f in _fits(ours)),
        "sparsid_kept": _mean(f["kept"] for f in _fits(ours)),
    }
    for kind, fits in _passes(ours).items():
        cpu = _mean(f["cpu_seconds"] for f in fits)
        result[f"sparsid_{kind}_cpu_seconds"] = cpu
        result[f"sparsid_{kind}_wall_seconds"] = _mean(f["wall_seconds"] for f in fits)
        result[f"{kind}_cpu_ratio"] = _ratio(rival_cpu, cpu)
    two = _of(rows, f"torch-{which}-two-threads")
    result["rival_two_threads_cpu_seconds"] = _mean(
        r["fit"]["cpu_seconds"] for r in two
    )
    result["rival_two_threads_wall_seconds"] = _mean(
        r["fit"]["wall_seconds"] for r in two
    )
    return result


def free_run(rows: list[Row]) -> Row:
    """Compare starts per minute of one core, and free-run errors."""
    ours = _of(rows, "sparsid-states")
    result: Row = {
        "sparsid_members": ours[0]["starts"] if ours else None,
        "sparsid_free_run_A_rmse": _mean(f["free_run_A_rmse"] for f in _fits(ours)),
        "sparsid_free_run_B_rmse": _mean(f["free_run_B_rmse"] for f in _fits(ours)),
    }
    for kind, fits in _passes(ours).items():
        cpu = _mean(f["cpu_seconds"] for f in fits)
        per_minute = _ratio(60.0 * ours[0]["starts"], cpu) if ours else None
        result[f"sparsid_{kind}_cpu_seconds"] = cpu
        result[f"sparsid_{kind}_starts_per_cpu_minute"] = per_minute
    for which in ("small", "wide"):
        rival = _of(rows, f"torch-{which}")
        cpu = _mean(r["fit"]["cpu_seconds"] for r in rival)
        result[f"rival_one_step_{which}_starts_per_cpu_minute"] = _ratio(60.0, cpu)
        error = _mean(r["free_run_B_rmse"] for r in rival)
        result[f"rival_one_step_{which}_free_run_B_rmse"] = error
    trained = _of(rows, "torch-free-run")
    if trained:
        row, full = trained[0], 10 * 1000
        per_epoch = row["fit"]["cpu_seconds"] / row["epochs"]
        result |= {
            "rival_free_run_epochs_measured": row["epochs"],
            "rival_free_run_cpu_seconds_per_epoch": per_epoch,
            "rival_free_run_projected_epochs": full,
            "rival_free_run_projected_starts_per_cpu_minute": 60.0 / (full * per_epoch),
            "rival_free_run_B_rmse_at_measured_epochs": row["free_run_B_rmse"],
        }
    warm = result.get("sparsid_warm_starts_per_cpu_minute")
    for key in (
        "rival_one_step_small_starts_per_cpu_minute",
        "rival_one_step_wide_starts_per_cpu_minute",
        "rival_free_run_projected_starts_per_cpu_minute",
    ):
        name = key.removeprefix("rival_").removesuffix("_starts_per_cpu_minute")
        result[f"ratio_to_{name}"] = _ratio(warm, result.get(key))
    return result


def packages(rows: list[Row]) -> list[Row]:
    """Compare fits of other packages with sparsid's members."""
    out: list[Row] = []
    for ours in (_of(rows, name) for name in ("sparsid-states", "sparsid-few")):
        for kind, fits in _passes(ours).items() if ours else ():
            starts = ours[0]["starts"]
            out.append(
                {
                    "model": f"sparsid.StateSpace(starts={starts}), {kind}",
                    "cpu_seconds": _mean(f["cpu_seconds"] for f in fits),
                    "wall_seconds": _mean(f["wall_seconds"] for f in fits),
                    "one_step_rmse": _mean(f["one_step_rmse"] for f in _fits(ours)),
                    "free_run_A_rmse": _mean(f["free_run_A_rmse"] for f in _fits(ours)),
                    "free_run_B_rmse": _mean(f["free_run_B_rmse"] for f in _fits(ours)),
                }
            )
    rival = _of(rows, "jax-sysid")
    count = rival[0]["starts"] if rival else 0
    out.append(
        {
            "model": "jax-sysid, one start, median over starts, compiled before",
            "cpu_seconds": _mean(r["fit"]["cpu_seconds"] for r in rival),
            "wall_seconds": _mean(r["fit"]["wall_seconds"] for r in rival),
            "free_run_A_rmse": _mean(r["median_free_run_A_rmse"] for r in rival),
            "free_run_B_rmse": _mean(r["median_free_run_B_rmse"] for r in rival),
        }
    )
    out.append(
        {
            "model": f"jax-sysid, {count} starts, best on the estimation record",
            "cpu_seconds": _mean(r["all_fits"]["cpu_seconds"] for r in rival),
            "wall_seconds": _mean(r["all_fits"]["wall_seconds"] for r in rival),
            "free_run_A_rmse": _mean(r["free_run_A_rmse"] for r in rival),
            "free_run_B_rmse": _mean(r["free_run_B_rmse"] for r in rival),
        }
    )
    for model, name in (
        ("polynomial", "SysIdentPy, polynomial by FROLS"),
        ("neural", "SysIdentPy, neural NARX"),
    ):
        rival = _of(rows, f"sysidentpy-{model}")
        out.append(
            {
                "model": name,
                "cpu_seconds": _mean(r["fit"]["cpu_seconds"] for r in rival),
                "wall_seconds": _mean(r["fit"]["wall_seconds"] for r in rival),
                "one_step_rmse": _mean(r["one_step_rmse"] for r in rival),
                "free_run_B_rmse": _mean(r["free_run_B_rmse"] for r in rival),
            }
        )
    return out


def evidence(rows: list[Row]) -> list[Row]:
    """Compare evaluations of the evidence."""
    ours = _of(rows, "sparsid-evidence")
    own = _mean(r["evidence"]["cpu_seconds"] for r in ours)
    out = [
        {
            "package": "sparsid, Gram form, gradient included",
            "exact": True,
            "log_evidence": ours[0]["evidence_value"] if ours else None,
            "cpu_seconds": own,
            "wall_seconds": _mean(r["evidence"]["wall_seconds"] for r in ours),
            "posterior_cpu_seconds": _mean(r["posterior"]["cpu_seconds"] for r in ours),
            "peak_gigabytes": _mean(r["peak_gigabytes"] for r in ours),
            "ratio": 1.0,
        }
    ]
    names = {row["job"] for row in rows if row["job"].startswith("laplace-")}
    for name in sorted(names):
        rival = _of(rows, name)
        cpu = _mean(r["evidence"]["cpu_seconds"] for r in rival)
        said = [r["failed"] for r in rows if r["job"] == name and "failed" in r]
        out.append(
            {
                "package": name.replace("laplace-", "laplace-torch, ", 1),
                # In function space the weights' own energy is another.
                "exact": "full" in name,
                "log_evidence": rival[0]["log_evidence"] if rival else None,
                "cpu_seconds": cpu,
                "wall_seconds": _mean(r["evidence"]["wall_seconds"] for r in rival),
                "posterior_cpu_seconds": _mean(
                    r["posterior"]["cpu_seconds"] for r in rival if "posterior" in r
                ),
                "peak_gigabytes": _mean(r["peak_gigabytes"] for r in rival),
                "ratio": _ratio(cpu, own),
                **({"failed": said[0]} if said else {}),
            }
        )
    return out


def _of(rows: list[Row], job: str) -> list[Row]:
    return [row for row in rows if row["job"] == job and "failed" not in row]


def _fits(ours: list[Row]) -> list[Row]:
    return [fit for row in ours for fit in row["rows"]]


def _passes(ours: list[Row]) -> dict[str, list[Row]]:
    """Return sparsid's times: computation, programs from disk, compilation included."""
    cold = [fit for row in ours for fit in row["cold"]["rows"]]
    return {
        "warm": [fit["second"] for fit in _fits(ours)],
        "cached": [fit["first"] for fit in _fits(ours)],
        "cold": [fit["first"] for fit in cold],
    }


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean; None if there is nothing, or a run diverged."""
    known = list(values)
    if not known or None in known:
        return None
    return statistics.fmean(v for v in known if v is not None)


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


# -- tables --------------------------------------------------------------------------


def markdown(found: Row) -> str:
    """Return all tables under their titles."""
    parts = {
        "The paper's procedure in PyTorch, a start each": one_step_table(
            found["one_step"]
        ),
        "Starts trained on the free run": free_run_table(found["free_run"]),
        "Other packages": packages_table(found["packages"]),
        "Evidence of 11-100-100-1 at 1019 samples": evidence_table(found["evidence"]),
    }
    failures = [
        f"- {f['job']}, round {f['round']}: {f['failed']}\n" for f in found["failures"]
    ]
    if failures:
        parts["What failed"] = "".join(failures)
    if found["not_run"]:
        parts["Not run"] = "".join(f"- {name}\n" for name in found["not_run"])
    sections = [f"## {title}\n\n{content}" for title, content in parts.items()]
    return "\n".join(["# Side by side\n", *sections])


def one_step_table(found: list[Row]) -> str:
    """Return the table of that comparison."""
    head = ["", *(c["network"] for c in found)]
    lines = [
        ("PyTorch, CPU s a start, one thread", "rival_cpu_seconds", 1),
        ("PyTorch, two threads: CPU s", "rival_two_threads_cpu_seconds", 1),
        ("PyTorch, two threads: wall s", "rival_two_threads_wall_seconds", 1),
        ("sparsid, warm, CPU s", "sparsid_warm_cpu_seconds", 1),
        ("sparsid, programs from disk, CPU s", "sparsid_cached_cpu_seconds", 1),
        ("sparsid, with compilation, CPU s", "sparsid_cold_cpu_seconds", 1),
        ("**ratio, warm**", "warm_cpu_ratio", 1),
        ("ratio, programs from disk", "cached_cpu_ratio", 1),
        ("ratio, with compilation", "cold_cpu_ratio", 2),
        ("PyTorch, one step [V]", "rival_one_step_rmse", 4),
        ("sparsid, one step [V]", "sparsid_one_step_rmse", 4),
        ("PyTorch, free run B [V]", "rival_free_run_B_rmse", 2),
        ("sparsid, free run B [V]", "sparsid_free_run_B_rmse", 2),
        ("PyTorch, weights kept", "rival_kept", 3),
        ("sparsid, weights kept", "sparsid_kept", 3),
    ]
    body = [[name, *(number(c[key], n) for c in found)] for name, key, n in lines]
    return table(head, body)


def free_run_table(found: Row) -> str:
    """Return the table of that comparison."""
    ours = found["sparsid_members"]
    lines = [
        (
            f"sparsid.StateSpace(), {ours} members in one batch, warm",
            "sparsid_warm_starts_per_cpu_minute",
            found["sparsid_free_run_B_rmse"],
            "",
        ),
        (
            "PyTorch, 39-10-10-10-1, trained one step ahead",
            "rival_one_step_small_starts_per_cpu_minute",
            found["rival_one_step_small_free_run_B_rmse"],
            "ratio_to_one_step_small",
        ),
        (
            "PyTorch, 11-100-100-1, trained one step ahead",
            "rival_one_step_wide_starts_per_cpu_minute",
            found["rival_one_step_wide_free_run_B_rmse"],
            "ratio_to_one_step_wide",
        ),
        (
            "PyTorch, 39-10-10-10-1, trained on the free run, projected to "
            f"{found.get('rival_free_run_projected_epochs')} epochs; error after "
            f"{found.get('rival_free_run_epochs_measured')}",
            "rival_free_run_projected_starts_per_cpu_minute",
            found.get("rival_free_run_B_rmse_at_measured_epochs"),
            "ratio_to_free_run_projected",
        ),
    ]
    head = ["", "starts per CPU minute", "free run B [V]", "sparsid's rate over it"]
    body = [
        [
            name,
            number(found.get(key), 3),
            number(error, 3),
            number(found.get(ratio), 1),
        ]
        for name, key, error, ratio in lines
        if found.get(key) is not None
    ]
    return table(head, body)


def packages_table(found: list[Row]) -> str:
    """Return the table of that comparison."""
    head = ["", "CPU s", "wall s", "one step [V]", "free run A [V]", "free run B [V]"]
    keys = (
        ("cpu_seconds", 1),
        ("wall_seconds", 1),
        ("one_step_rmse", 4),
        ("free_run_A_rmse", 3),
        ("free_run_B_rmse", 3),
    )
    body = [[r["model"], *(number(r.get(k), n) for k, n in keys)] for r in found]
    return table(head, body)


def evidence_table(found: list[Row]) -> str:
    """Return the table of that comparison."""
    head = ["", "exact", "log evidence", "CPU s", "posterior CPU s", "GB", "ratio"]
    body = [
        [
            row["package"],
            "yes" if row["exact"] else "no",
            number(row["log_evidence"], 2) if "failed" not in row else "failed",
            number(row["cpu_seconds"], 3),
            number(row["posterior_cpu_seconds"], 3),
            number(row["peak_gigabytes"], 1),
            number(row["ratio"], 1),
        ]
        for row in found
    ]
    return table(head, body)


def table(head: list[str], body: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
