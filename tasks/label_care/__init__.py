"""Care of labels: the review of a collection, corrections, what to label next, and what labels gained."""
