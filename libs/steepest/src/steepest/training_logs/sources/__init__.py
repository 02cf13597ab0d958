"""The sources of training logs: growing files, TensorBoard, MLflow."""
