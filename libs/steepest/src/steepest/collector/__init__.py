"""The node-side collector: sends heartbeats, and the losses that jobs print or report, to the log."""
