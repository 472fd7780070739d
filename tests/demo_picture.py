"""Remake the picture in the README: the map of the demo collection, as a browser shows it.

    python -m tests.demo_picture

It runs the demo in a temporary folder, opens the map in Chromium, points at an item, and writes
`.github/demo.png` with a palette of 128 colors, so that the file stays small.
"""

import io
import tempfile
from pathlib import Path

from PIL import Image

from flows.config import load_config
from tests.browser import open_browser, visiting
from tests.conftest import REPOSITORY, run_training

ITEM = "images/scene_040.jpg"
SIZE = {"width": 1180, "height": 720}
# The lines below the legend and the last filter would be cut.
SHOWN = {"x": 0, "y": 0, "width": 1180, "height": 711}


def main() -> None:
    """Draw the map and take its picture."""
    with tempfile.TemporaryDirectory() as folder, open_browser() as context:
        config = load_config(None, ["tracking.enabled=false"], home=folder, source={"path": "demo"})
        report = run_training(config).report
        assert report
        write_picture(context, report.parent / "map.html", REPOSITORY / ".github" / "demo.png")


def write_picture(context: object, page: Path, target: Path) -> None:
    """Open the map, point at an item and save what is shown."""
    with visiting(context, page.as_uri()) as visit:
        visit.page.set_viewport_size(SIZE)
        visit.page.wait_for_function("labelscapeMap.ready > 0")
        visit.page.mouse.move(*visit.page.evaluate("id => labelscapeMap.placeOf(id)", ITEM))
        visit.page.wait_for_selector("#item > canvas[data-drawn=yes]")
        visit.page.wait_for_selector(".tip canvas[data-drawn=yes]")
        shot = Image.open(io.BytesIO(visit.page.screenshot(clip=SHOWN)))
    shot.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    main()
