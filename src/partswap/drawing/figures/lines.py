"""Lines: texts broken and shortened so that they fit their place."""

from __future__ import annotations

from functools import lru_cache


def fitted(text: str, inches: float, size: float, lines: int, *, bold: bool = False) -> list[str]:
    """Return a text as at most so many lines that are no wider than `inches`; what does not fit ends in dots."""
    words = text.replace(" %", "\u00a0%").replace("< ", "<\u00a0").replace("> ", ">\u00a0").split(" ")
    full: list[str] = []
    line = ""
    for number, word in enumerate(words):
        longer = f"{line} {word}".strip()
        if width_of(longer, size, bold) <= inches:
            line = longer
            continue
        if line and len(full) + 1 < lines:
            full.append(line)
            line = ""
        rest = " ".join([*([line] if line else []), *words[number:]])
        if len(full) + 1 >= lines:
            return [*full, _shortened(rest, inches, size, bold)]
        line = word
        while width_of(line, size, bold) > inches and len(full) + 1 < lines:  # a word that is wider than a line
            cut = max(1, next((k for k in range(len(line), 0, -1) if width_of(line[:k], size, bold) <= inches), 1))
            full.append(line[:cut])
            line = line[cut:]
        if width_of(line, size, bold) > inches:
            return [*full, _shortened(line, inches, size, bold)]
    return [*full, line] if line else full


def _shortened(text: str, inches: float, size: float, bold: bool) -> str:
    if width_of(text, size, bold) <= inches:
        return text
    while text and width_of(f"{text}…", size, bold) > inches:
        text = text[:-1]
    return f"{text.rstrip()}…"


@lru_cache(4096)
def width_of(text: str, size: float, bold: bool = False) -> float:
    """Return how wide a text is, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    if not text.strip():
        return 0.0
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0]) / 72
