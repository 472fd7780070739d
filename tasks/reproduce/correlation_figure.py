"""Heat maps of label correlation (Fig. 3 of MLDA)."""

from embedding_core.labels import label_correlation
from tasks.report.figures import draw_correlation
from tasks.reproduce.page import Story


def draw(story: Story) -> dict[str, bytes]:
    """Draw one heat map per data set."""
    pictures = {}
    for name in story.experiment.datasets:
        data = story.load(name)
        C = label_correlation(data.Y)
        pictures[f"correlation-{name}.png"] = draw_correlation(C, data.label_names).png
    return pictures
