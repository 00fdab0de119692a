"""Noise of a free run: an autoregression for every output.

What a simulation leaves over is what the model lacks and what disturbed the system: it
has a memory. Counted as white noise, a thousand such residuals would pass for a
thousand independent facts, and the evidence would believe far too much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# Highest order, and samples that each coefficient needs.
LARGEST_ORDER, SAMPLES_EACH = 12, 20
# Smallest variance of the innovations, of standardised outputs.
SMALLEST = 1e-12
# A reflection beyond this cannot be told from an offset in any record.
LARGEST_REFLECTION = 0.9995


@dataclass(frozen=True, eq=False)
class Autoregression:
    """Noise of one output.

    Attributes
    ----------
    predictors
        Row k: coefficients of the best predictor of order k, nearest sample first.
    variances
        Variance of its error, order by order.
    ahead
        Variance of a prediction so many samples beyond the next, at full order.
    """

    predictors: Values
    variances: Values
    ahead: Values

    @property
    def order(self) -> int:
        """Samples that it remembers."""
        return len(self.variances) - 1

    @property
    def variance(self) -> float:
        """Variance of the noise itself."""
        return float(self.variances[0])

    @property
    def coefficients(self) -> Values:
        """The predictor of full order."""
        return np.asarray(self.predictors[-1])

    @staticmethod
    def white(variance: float) -> Autoregression:
        """Return noise without memory."""
        value = np.array([max(variance, SMALLEST)])
        return Autoregression(np.zeros((1, 1)), value, value)

    @staticmethod
    def of(moments: Values, samples: float, order: int | None = None) -> Autoregression:
        """Return the noise with given autocovariances, by Durbin and Levinson.

        Parameters
        ----------
        moments
            Autocovariances of lag 0, 1, ...
        samples
            How many they were estimated from: the order is that of the smallest
            ``samples log(variance) + order log(samples)``.
        order
            Take this order instead.
        """
        most = len(moments) - 1
        first = max(float(moments[0]), SMALLEST)
        rows, variances = [np.zeros(0)], [first]
        for k in range(1, most + 1):
            before = rows[-1]
            gap = moments[k] - before @ moments[k - 1 : 0 : -1] if k > 1 else moments[1]
            reflection = gap / variances[-1]
            if not abs(reflection) < LARGEST_REFLECTION:
                if k > 1:
                    break
                reflection = np.sign(reflection) * LARGEST_REFLECTION
            rows.append(np.append(before - reflection * before[::-1], reflection))
            variances.append(max(variances[-1] * (1.0 - reflection**2), SMALLEST))
        if order is None:
            scores = samples * np.log(variances) + np.arange(len(rows)) * np.log(
                samples
            )
            order = int(np.argmin(scores))
        order = min(order, len(rows) - 1)
        table = np.zeros((order + 1, max(order, 1)))
        for k in range(order + 1):
            table[k, :k] = rows[k]
        variance = np.array(variances[: order + 1])
        return Autoregression(table, variance, _ahead(table[order], variance[order]))


def _ahead(coefficients: Values, variance: float) -> Values:
    """Return the variance of predictions 1, 2, ... steps ahead."""
    response = np.zeros(len(coefficients) + 1)
    response[0] = 1.0
    for k in range(1, len(response)):
        response[k] = coefficients[:k] @ response[k - 1 :: -1][:k]
    return np.asarray(variance * np.cumsum(response**2))


def moments_of(signals: Values, seen: Values, most: int) -> tuple[Values, Values]:
    """Return sums of products of samples 0, 1, ... apart, and how many they are.

    Parameters
    ----------
    signals
        (time, column): products are summed over columns, too.
    """
    shown = signals * seen[:, None]
    sums, pairs = np.zeros(most + 1), np.zeros(most + 1)
    for k in range(min(most + 1, len(seen))):
        sums[k] = np.vdot(shown[k:], shown[: len(shown) - k])
        pairs[k] = seen[k:] @ seen[: len(seen) - k]
    return sums, pairs
