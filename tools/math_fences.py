"""MkDocs hook: a fence marked ``math`` becomes MathML, which browsers draw themselves.

GitHub typesets the same fences, so a page reads well in both places, and the site needs
neither a script nor a network for its formulas.
"""

from typing import Any

from latex2mathml.converter import convert


def on_config(config: Any) -> Any:
    """Tell the Markdown extension for fences about ours."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {})
    own = {"name": "math", "class": "formula", "format": formula}
    fences["custom_fences"] = [*fences.get("custom_fences", ()), own]
    return config


def formula(source: str, language: str, css_class: str, *_: Any, **__: Any) -> str:
    """Return LaTeX as a block of MathML."""
    return f'<div class="{css_class}">{convert(source, display="block")}</div>'
