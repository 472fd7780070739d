"""The papers' tables and figures as experiments: declared as data, run as stages."""
