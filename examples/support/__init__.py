"""Services and helpers of the pipelines; each module can be used alone.

====================  ============================================================================================
`processes`           programs started in a folder and ended by their pid; `Processes.start`, `Child.kill` (SIGKILL)
`ports`               a port that nobody listens on: ``free_port()``
`broker`              starts a RabbitMQ on free ports, its data in a folder: ``with running_broker(folder)``
`acker`               starts an acker, likewise: ``start_acker(processes, folder)``, ``create_topology``
`orders`              the orders: ``make_orders(count)``, as JSON and back, ``publish(url, queue, orders)``
`card_service`        the HTTP card service, a process: fails, hangs, declines, knows a transaction it has charged
`cards`               its client: ``Cards(url).charge(order, transaction=…)``; ``start_card_service`` and its ledger
`statuses`            the final status of each order in SQLite: ``Statuses(path)``, ``away(path)`` locks it
`notice_service`      the second system, a process that receives the status of each order
`notices`             its client: ``Notices(url).send(order_id, status)``; ``start_notice_service`` and its ledger
`session`             a small Spark, and queries that are started again: ``start_session(folder)``, ``run_queries(…)``
`streams`             a replayable stream, files in a folder: ``Stream(folder).append(rows)``
`reports`             reports from a process to its starter: ``report(…)``, and ``Reports(log).read()``
`screen`              how a run is shown: a live line, events, and the claims of the end
====================  ============================================================================================

All of it is synchronous and independent of how tuples travel.
"""
