"""Prints what a client of openapi-python-client reads. Arguments: the API, then API#ORDER_ID for each transfer."""
import json
import sys

from countersign_client import Client
from countersign_client.api.default import manager_balance, order_status
from countersign_client.models import OrderStatus, OrderStatusBody
from pay import pay

api, *transfers = sys.argv[1:]
client = Client(base_url=api, headers={"Accept": "application/json"})
print("balance", manager_balance.sync("acme", client=client)[0].amount)
body = OrderStatusBody(login="acme", client_orderid="invoice-1")
found = order_status.sync_detailed("1234", client=client, body=body)
print("status", OrderStatus.from_dict(json.loads(found.content)).status)
for accept in ("*/*", "application/json"):
    for transfer in transfers:
        base, order_id = transfer.split("#")
        outcome, status, reason = pay(Client(base_url=base, headers={"Accept": accept}), order_id)
        print(order_id, outcome, status or "-", reason or "-")
