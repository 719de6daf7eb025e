"""Bridges to the frameworks that people work with.

Each module needs its framework, an extra of the same name, and nothing here imports one before it
is asked for: ``transformers`` (Hugging Face), ``lightning``, ``skorch``, ``torchmetrics``,
``boosting`` (XGBoost and LightGBM). ``loggers`` needs none: it writes to TensorBoard, MLflow or
Weights & Biases, whichever it is given.
"""
