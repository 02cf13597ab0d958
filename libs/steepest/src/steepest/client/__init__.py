"""A typed client of a gateway, synchronous and asynchronous, with the same names.

::

    from steepest.client import Client

    with Client("http://127.0.0.1:8080") as pool:
        for row in pool.jobs():
            print(row.job, row.phase, row.loss)

It needs the extra ``client``.
"""

from steepest.client.asynchronous import AsyncClient
from steepest.client.calls import GatewayError
from steepest.client.synchronous import Client

__all__ = ["AsyncClient", "Client", "GatewayError"]
