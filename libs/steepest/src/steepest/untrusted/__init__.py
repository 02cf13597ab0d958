"""The only place that opens, bounds and decodes files which jobs and devices write.

A job is untrusted data. In place of an expected file it may leave a pipe, a link, a device, a folder, or an endless file.
"""
