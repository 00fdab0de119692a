"""Evidence and posterior of a network by laplace-torch.

``--structure full`` is the exact Gauss-Newton curvature over all weights, the matrix
that sparsid's Gram form avoids. ``gp`` with as many points as there are samples is the
same evidence in function space, for an isotropic prior only. ``kron`` approximates.
An evaluation is a fit of the curvature at given weights and the log marginal
likelihood; the posterior is the standard deviations of all weights (``full``), or the
predictive variance over the estimation rows.
"""

from __future__ import annotations

import resource
import statistics
from typing import Any

import torch
from common import (
    NOISE_VARIANCE,
    PRIOR_VARIANCE,
    Clock,
    arguments,
    evidence_problem,
    peak_gigabytes,
    read,
    report,
    versions,
)
from laplace import Laplace
from laplace.curvature import BackPackGGN, CurvlinopsGGN
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BACKENDS = {"backpack": BackPackGGN, "curvlinops": CurvlinopsGGN}


def network(weights: list[Any]) -> nn.Sequential:
    """Return the tanh network with these weights, in float64."""
    modules: list[nn.Module] = []
    for W in weights:
        layer = nn.Linear(len(W) - 1, W.shape[1], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(W[:-1].T))
            layer.bias.copy_(torch.tensor(W[-1]))
        modules += [layer, nn.Tanh()]
    return nn.Sequential(*modules[:-1])


def fitted(
    structure: str, backend: str, model: nn.Module, loader: DataLoader, samples: int
) -> Any:
    """Return the fitted curvature."""
    more = {"n_subset": samples} if structure == "gp" else {}
    found = Laplace(
        model,
        "regression",
        subset_of_weights="all",
        hessian_structure=structure,
        sigma_noise=NOISE_VARIANCE**0.5,
        prior_precision=1.0 / PRIOR_VARIANCE,
        backend=BACKENDS[backend],
        **more,
    )
    found.fit(loader)
    return found


def posterior(structure: str, found: Any, rows: torch.Tensor) -> float:
    """Compute what there is of a posterior; return its mean, as a check."""
    if structure == "full":
        return float(found.posterior_covariance.diagonal().sqrt().mean())
    kind = "gp" if structure == "gp" else "glm"
    return float(found(rows, pred_type=kind)[1].mean())


def main() -> None:
    """Evaluate some times, print the line."""
    parser = arguments(__doc__)
    parser.add_argument("--lag", type=int, default=5)
    parser.add_argument("--hidden", type=int, nargs="+", default=[100, 100])
    parser.add_argument("--structure", choices=("full", "gp", "kron"), default="full")
    parser.add_argument("--backend", choices=BACKENDS, default="backpack")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's choice")
    parser.add_argument("--memory", type=float, default=10.0, help="limit in gigabytes")
    parser.add_argument("--evidence-only", action="store_true")
    options = parser.parse_args()
    limit = int(options.memory * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.set_default_dtype(torch.float64)
    rows, target, weights = evidence_problem(
        read(options.data), options.lag, options.hidden, options.seed
    )
    x, y = torch.tensor(rows), torch.tensor(target)[:, None]
    loader = DataLoader(TensorDataset(x, y), batch_size=len(y))
    model, structure = network(weights), options.structure
    result: dict[str, Any] = {
        "rival": "laplace-torch",
        "settings": {
            "widths": [rows.shape[1], *options.hidden, 1],
            "structure": structure,
            "backend": options.backend,
            "samples": len(target),
            "weights": sum(W.size for W in weights),
            "prior": "isotropic",
            "prior_variance": PRIOR_VARIANCE,
            "noise_variance": NOISE_VARIANCE,
            "precision": "float64",
            "threads": torch.get_num_threads(),
            "memory_limit_gigabytes": options.memory,
            "seed": options.seed,
        },
        "versions": versions("torch", "laplace-torch", "numpy"),
    }
    evaluations = []
    try:
        for _ in range(options.repetitions):
            clock = Clock()
            found = fitted(structure, options.backend, model, loader, len(target))
            value = float(found.log_marginal_likelihood().detach())
            evaluations.append(clock.read())
        result |= {
            "log_evidence": value,
            "evidence": {
                key: statistics.median(e[key] for e in evaluations)
                for key in evaluations[0]
            },
        }
        if not options.evidence_only:
            clock = Clock()
            result["posterior_mean"] = posterior(structure, found, x)
            result["posterior"] = clock.read()
    except (RuntimeError, MemoryError, NotImplementedError, AttributeError) as error:
        result["failed"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    report(result | {"peak_gigabytes": peak_gigabytes()})


if __name__ == "__main__":
    main()
