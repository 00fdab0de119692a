"""What a notebook shows of records and forecasts: a line of text and a picture."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING

from sparsid.data.record import Record
from sparsid.plots.signals import forecast, recording
from sparsid.plots.style import plain_text
from sparsid.results.forecast import Forecast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Outputs of a forecast with a picture.
LARGEST_OUTPUTS = 3


def record_html(record: Record) -> str:
    """Return a record for a notebook."""
    return _shown(repr(record), recording(record))


def forecast_html(found: Forecast) -> str:
    """Return a forecast for a notebook."""
    from matplotlib.figure import Figure

    count = min(len(found.output_names), LARGEST_OUTPUTS)
    figure = Figure(figsize=(9.0, 2.6 * count), dpi=110, layout="constrained")
    for k, ax in enumerate(figure.subplots(count, 1, squeeze=False)[:, 0]):
        forecast(found, ax, k)
    return _shown(repr(found), figure)


def _shown(text: str, figure: Figure) -> str:
    plain_text(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    picture = base64.b64encode(buffer.getvalue()).decode("ascii")
    image = f'<img src="data:image/png;base64,{picture}" style="max-width: 100%">'
    return f"<div><code>{escape(text)}</code><br>{image}</div>"
