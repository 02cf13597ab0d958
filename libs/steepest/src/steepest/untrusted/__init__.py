"""The only door to what jobs and devices write: files are opened, bounded and decoded here, and nowhere else.

A job is data. What it leaves where a file is expected may be a pipe, a link, a device, a folder, or a file without end.
"""
