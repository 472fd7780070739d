"""What can be said about predicted labels: a promise on precision, drift of new items, and evidence."""
