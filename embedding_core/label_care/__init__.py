"""Care of labels: probable errors, duplicates, labels that belong together, a queue, forecasts."""
