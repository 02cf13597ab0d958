"""The cluster port and its adapters: where training processes really run."""
