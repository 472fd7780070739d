"""Tags of tracked candidates and registered models."""

RECIPE_TAG, STATE_TAG, TUNE_TAG = "labelscape.recipe", "labelscape.state", "labelscape.tune_for"
LEFT_OUT_TAG = "labelscape.left_out_labels"
FEATURES_TAG, METRIC_TAG, FOLDS_TAG = "labelscape.features", "labelscape.metric", "labelscape.fold_scores"
SCORE_TAG = "labelscape.score"
