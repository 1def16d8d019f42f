"""Little drawings of the things that the shop sells, for the regular theme: one path in a 64 x 64 box for each noun."""
# ruff: noqa: E501

PATHS = {
    "mug": "M12 16h32v34a6 6 0 0 1-6 6H18a6 6 0 0 1-6-6zM44 24h6a8 8 0 0 1 8 8v4a8 8 0 0 1-8 8h-6v-5h5a4 4 0 0 0 4-4v-2a4 4 0 0 0-4-4h-5z",
    "lamp": "M24 8h16l10 24H14zM29 32h6v18h-6zM20 50h24v6H20z",
    "chair": "M18 6h28v26H18zM16 34h32v7H16zM17 41h5v17h-5zM42 41h5v17h-5z",
    "bag": "M12 22h40l4 34H8zM22 22v-4a10 10 0 0 1 20 0v4h-4v-4a6 6 0 0 0-12 0v4z",
    "shoe": "M6 30l12-4 4-10h8l6 16 16 6a8 8 0 0 1 6 8v6H6z",
    "clock": "M32 6a26 26 0 1 1-.1 0zM30 16v18l12 8 3-4-10-7V16z",
    "desk": "M6 20h52v7H6zM9 27h5v29H9zM50 27h5v29h-5zM34 29h14v12H34z",
    "phone": "M20 4h24a4 4 0 0 1 4 4v48a4 4 0 0 1-4 4H20a4 4 0 0 1-4-4V8a4 4 0 0 1 4-4zM21 10v38h22V10zM29 52h6v4h-6z",
    "book": "M12 8h32a8 8 0 0 1 8 8v40H18a6 6 0 0 1-6-6zM18 47h28v4H18zM22 16h20v5H22z",
    "ring": "M32 22a18 18 0 1 1-.1 0zM32 28a12 12 0 1 0 .1 0zM24 8h16l5 6-13 10-13-10z",
    "hat": "M18 18q14-16 28 0l3 22q11 3 11 7 0 5-28 5T4 47q0-4 11-7z",
    "drum": "M8 22q0-9 24-9t24 9v22q0 9-24 9T8 44zM14 22q0 4 18 4t18-4-18-4-18 4z",
}


def drawing(label: str, fill: str, size: int) -> str:
    """SVG of the thing that a label ends with, `size` px wide; empty when there is no drawing of it."""
    path = PATHS.get(label.split()[-1]) if label.split() else None
    if path is None:
        return ""
    return (
        f'<svg width="{size}" height="{size}" viewBox="0 0 64 64" aria-hidden="true">'
        f'<path d="{path}" fill="{fill}" fill-rule="evenodd" stroke="#00000055" stroke-width="1.2"/></svg>'
    )
