"""The paper's procedure in plain PyTorch, written for this comparison.

Algorithm 1 with the settings of the authors' published code: a ReLU network, RMSE as
the loss, full batch, Adam at 1e-2 with cosine decay over all epochs, ten cycles of a
thousand epochs, row and column groups together with their subgradient, one lambda,
both thresholds at 1e-4, permanent masks, means removed. After each cycle, per layer::

    C = (U^-1 + H)^-1,   alpha = 1/upsilon - C/upsilon^2,   1/upsilon_ij = 1/r_i + 1/c_j
    omega_g = sqrt(sum_g alpha),   r_i = ||w_i:|| / omega_i,   c_j = ||w_:j|| / omega_j

``H`` is the layer's Hessian of the loss by automatic differentiation: Gauss-Newton,
which is exact for ReLU but for the curvature of the square root. Of ``C`` only the
diagonal is needed; it is computed from the smaller of the two systems (weights or
samples), which costs the wide layer a second instead of minutes.

``--objective free-run`` trains the same network, loss and penalty on its free run over
the estimation record instead, sample after sample, differentiated by PyTorch.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from common import (
    Array,
    Clock,
    arguments,
    free_run,
    lagged,
    peak_gigabytes,
    read,
    report,
    rmse,
    versions,
)
from torch import Tensor, nn

LEARNING_RATE = 1e-2
LAMBDA = 1e-3
KAPPA_UPSILON = KAPPA_W = 1e-4


class Sparse:
    """A network with the masks and group weights of its layers."""

    def __init__(self, widths: list[int]) -> None:
        self.layers = nn.ModuleList(nn.Linear(n, m) for n, m in pairwise(widths))
        # nn.Linear stores the transpose: rows of the paper are columns here.
        weights = [layer.weight for layer in self.layers]
        self.masks = [torch.ones_like(w) for w in weights]
        self.omega = [(torch.ones(w.shape[1]), torch.ones(w.shape[0])) for w in weights]
        self.upsilon = [torch.ones_like(w) for w in weights]

    def __call__(self, z: Tensor) -> Tensor:
        """Return the one-step prediction."""
        for layer in self.layers[:-1]:
            z = torch.relu(layer(z))
        return self.layers[-1](z).squeeze(-1)

    def penalty(self) -> Tensor:
        """Return the group norms, weighted."""
        total = torch.zeros(())
        for layer, (rows, columns) in zip(self.layers, self.omega, strict=True):
            w = layer.weight
            total = total + (rows * torch.linalg.vector_norm(w, dim=0)).sum()
            total = total + (columns * torch.linalg.vector_norm(w, dim=1)).sum()
        return total

    @torch.no_grad()
    def apply_masks(self) -> None:
        """Hold pruned weights at zero."""
        for layer, mask in zip(self.layers, self.masks, strict=True):
            layer.weight.mul_(mask)

    def update(self, z: Tensor, y: Tensor) -> None:
        """Update the hyper-parameters and prune."""
        error = torch.sqrt(torch.mean((y - self(z).detach()) ** 2))
        scale = 1.0 / (len(y) * error)
        for k, layer in enumerate(self.layers):
            J = self._jacobian(k, z)
            with torch.no_grad():
                self._update_layer(k, layer.weight, J, scale)

    def _jacobian(self, k: int, z: Tensor) -> Tensor:
        """Return the derivative of every prediction by the weights of one layer."""
        names = [f"{j}.{kind}" for j in range(len(self.layers)) for kind in _KINDS]
        values = dict(zip(names, self.layers.parameters(), strict=True))

        def predict(weight: Tensor, row: Tensor) -> Tensor:
            a = row
            for j in range(len(self.layers)):
                w = weight if j == k else values[f"{j}.weight"].detach()
                a = nn.functional.linear(a, w, values[f"{j}.bias"].detach())
                a = torch.relu(a) if j < len(self.layers) - 1 else a
            return a.squeeze(-1)

        slope = torch.func.vmap(torch.func.grad(predict), in_dims=(None, 0))
        return slope(self.layers[k].weight.detach(), z).flatten(1)

    def _update_layer(self, k: int, w: Tensor, J: Tensor, scale: Tensor) -> None:
        live = self.masks[k].flatten() > 0
        upsilon = self.upsilon[k].flatten().double()[live]
        X = J.double()[:, live] * torch.sqrt(scale.double() * upsilon)
        # diag C / upsilon = diag (I + X'X)^-1 = 1 - diag X'(I + XX')^-1 X
        if X.shape[1] <= X.shape[0]:
            eye = torch.eye(X.shape[1], dtype=X.dtype)
            L = torch.linalg.cholesky(X.T @ X + eye)
            shrunk = 1.0 - torch.cholesky_inverse(L).diagonal()
        else:
            eye = torch.eye(X.shape[0], dtype=X.dtype)
            L = torch.linalg.cholesky(X @ X.T + eye)
            shrunk = (torch.linalg.solve_triangular(L, X, upper=False) ** 2).sum(0)
        alpha = torch.zeros(w.numel(), dtype=X.dtype)
        alpha[live] = (shrunk / upsilon).abs()
        alpha = alpha.reshape(w.shape).to(w.dtype)
        rows, columns = alpha.sum(0).sqrt(), alpha.sum(1).sqrt()
        tiny = torch.finfo(w.dtype).tiny
        r = torch.linalg.vector_norm(w, dim=0) / rows.clamp_min(tiny)
        c = torch.linalg.vector_norm(w, dim=1) / columns.clamp_min(tiny)
        kept = (r[None] >= KAPPA_UPSILON) & (c[:, None] >= KAPPA_UPSILON)
        self.masks[k] *= (kept & (w.abs() >= KAPPA_W)).to(w.dtype)
        self.omega[k] = (rows, columns)
        self.upsilon[k] = 1.0 / (1.0 / r[None] + 1.0 / c[:, None])
        self.apply_masks()

    def kept(self) -> float:
        """Return the share of the weights that is left, biases not counted."""
        left = sum(float(m.sum()) for m in self.masks)
        return left / sum(m.numel() for m in self.masks)


_KINDS = ("weight", "bias")


def simulated(network: Sparse, u: Tensor, y: Tensor, lag: int) -> Tensor:
    """Return the free run after the first ``lag`` outputs, differentiable."""
    past = [y[k] for k in range(lag - 1, -1, -1)]
    windows = u.unfold(0, lag + 1, 1).flip(1)
    out = []
    for window in windows:
        now = network(torch.cat([window, torch.stack(past)]))
        out.append(now)
        past = [now, *past[:-1]]
    return torch.stack(out)


def train(
    network: Sparse, u: Array, y: Array, lag: int, options: dict
) -> tuple[int, float]:
    """Run the cycles; return the epochs done and the last loss."""
    z, target = (torch.tensor(a, dtype=torch.float32) for a in lagged(u, y, lag))
    signals = [torch.tensor(a, dtype=torch.float32) for a in (u, y)]
    total = options["cycles"] * options["epochs"]
    optimiser = torch.optim.Adam(network.layers.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, total)
    loss = torch.zeros(())
    for _ in range(options["cycles"]):
        for _ in range(options["epochs"]):
            optimiser.zero_grad()
            if options["objective"] == "free-run":
                predicted = simulated(network, *signals, lag)
            else:
                predicted = network(z)
            loss = torch.sqrt(torch.mean((target - predicted) ** 2))
            (loss + LAMBDA * network.penalty()).backward()
            optimiser.step()
            network.apply_masks()
            schedule.step()
        network.update(z, target)
    return total, float(loss.detach())


def main() -> None:
    """Train once, score the finished network, print the line."""
    parser = arguments(__doc__)
    parser.add_argument("--lag", type=int, default=19)
    parser.add_argument("--hidden", type=int, nargs="+", default=[10, 10, 10])
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's choice")
    parser.add_argument(
        "--objective", choices=("one-step", "free-run"), default="one-step"
    )
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    data, lag = read(options.data), options.lag
    u_mean, y_mean = data.u.mean(), data.y.mean()
    network = Sparse([2 * lag + 1, *options.hidden, 1])

    clock = Clock()
    settings = {k: getattr(options, k) for k in ("cycles", "epochs", "objective")}
    epochs, loss = train(network, data.u - u_mean, data.y - y_mean, lag, settings)
    fit = clock.read()

    # The finished network, in NumPy: the test record is looked at from here on.
    layers = [
        (p.weight.detach().double().numpy().T, p.bias.detach().double().numpy())
        for p in network.layers
    ]

    def predict(rows: Array) -> Array:
        a = rows
        for W, b in layers[:-1]:
            a = np.maximum(a @ W + b, 0.0)
        return (a @ layers[-1][0] + layers[-1][1])[..., 0]

    u, y = data.u_test - u_mean, data.y_test - y_mean
    rows, target = lagged(u, y, lag)
    run = free_run(lambda row: float(predict(row)), u, y, lag)
    report(
        {
            "rival": "PyTorch rendering of the paper's procedure",
            "settings": {
                "widths": [2 * lag + 1, *options.hidden, 1],
                "lag": lag,
                "activation": "relu",
                **settings,
                "optimiser": "Adam, full batch, cosine decay",
                "learning_rate": LEARNING_RATE,
                "lambda": LAMBDA,
                "kappa": KAPPA_W,
                "precision": "float32",
                "threads": torch.get_num_threads(),
                "seed": options.seed,
            },
            "versions": versions("torch", "numpy"),
            "starts": 1,
            "epochs": epochs,
            "fit": fit,
            "seconds_per_epoch": fit["wall_seconds"] / epochs,
            "kept": network.kept(),
            "estimation_loss": loss if math.isfinite(loss) else None,
            "one_step_rmse": rmse(target, predict(rows)),
            "free_run_B_rmse": rmse(y[lag:], run[lag:]),
            "peak_gigabytes": peak_gigabytes(),
        }
    )


if __name__ == "__main__":
    main()
