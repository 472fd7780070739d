"""The sections of the corpus, one module each with a function `cases`."""

# Each group is a slow test module of its own, so that test processes share the work.
GROUPS = {
    "files": ("images", "names", "links", "media"),
    "tables": ("labels", "annotations", "arff", "tables", "own_tables", "arrays", "edges"),
    "artifacts": ("artifacts",),
    "models": ("models", "configuration", "secrets"),
    "processes": ("environment", "processes", "doors"),
}
SECTIONS = tuple(name for group in GROUPS.values() for name in group)
