"""Where training logs come from: growing files, TensorBoard, MLflow."""
