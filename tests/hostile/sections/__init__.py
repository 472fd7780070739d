"""The sections of the corpus, one module each with a function `cases`."""

SECTIONS = (
    "images",
    "names",
    "links",
    "labels",
    "annotations",
    "arff",
    "tables",
    "media",
    "arrays",
    "own_tables",
    "edges",
    "artifacts",
    "models",
    "configuration",
    "secrets",
    "environment",
    "processes",
    "doors",
)
