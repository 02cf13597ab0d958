"""Grafana's dashboards, made from tables."""
