"""A shop that uses the client. Run with: python3 main.py http://127.0.0.1:8080/sandbox/gw [PORT [SECONDS]]

Then: curl -d client_orderid=order-7 -d amount=12.50 -d currency=EUR http://127.0.0.1:PORT/pay

It has no key and no secret. A real one stores its orders in a database, and authenticates those who may pay and refund.
"""

import json
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from countersign import Countersign, Response


class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        """The gateway sends a callback by GET."""
        path, _, query = self.path.partition("?")
        if path == "/callback":
            self.callback(query)
        else:
            self.respond(404)

    def do_POST(self):
        """A payer's browser sends a redirect by POST."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        command = {"/pay": self.pay, "/refund": self.refund}.get(self.path)
        if self.path == "/callback":
            self.callback(body)
        elif command:
            found = command(dict(urllib.parse.parse_qsl(body)))
            about = [f"{found.next}: {found.row}", found.order_id or found.reason, found.message]
            self.respond(200, " ".join(map(str, filter(None, about))) + "\n")
        else:
            self.respond(404)

    def pay(self, form):
        """A real shop stores the order, and when it was sent, before this."""
        order = {name: form.get(name, "") for name in ("client_orderid", "amount", "currency")}
        client_orderid = order["client_orderid"]
        is_known = orders.setdefault(client_orderid, order) is not order
        if is_known and stored(client_orderid) != order:
            return Response(next="ask-support", row="order ID reused")
        # What was begun is only queried. What was not processed is sent again, unless a callback has settled it.
        if is_known and (client_orderid in settled or not unprocessed.pop(client_orderid, None)):
            return self.until_decided(order)
        sent = countersign.pay("v4/transfer", {**form, "server_callback_url": self.callback_url()})
        if sent.next != "query":
            unprocessed[client_orderid] = sent.next
            return sent
        # A real shop shows it to the payer. It does not prove that there is no order.
        if message := sent.fields.get("error-message"):
            print(json.dumps(message), flush=True)
        return self.until_decided(order)

    def until_decided(self, order):
        found = countersign.until_decided(order, seconds)
        self.settle(order["client_orderid"], found)
        return found

    def settle(self, client_orderid, found):
        """A real shop delivers here, or not: once for each order, whatever comes first or again.

        The `control` of a callback is no key for that: a refund has the one of its payment.
        """
        is_final = stored(client_orderid) and found.next in ("paid", "not-paid")
        if is_final and settled.setdefault(client_orderid, found) is found:
            print(f"settled: {json.dumps(client_orderid)} is {found.next}", flush=True)

    def refund(self, form):
        """One at a time of an order. A real shop gives each refund an ID of its own, stores it, and sends one ID once."""
        client_orderid = form.get("client_orderid", "")
        if refunds.setdefault(client_orderid, form) is not form:
            return Response(next="ask-support", row="a refund is not decided")

        def store(serial_number):
            refunds[client_orderid] = {**form, "by-request-sn": serial_number}

        found = countersign.refund({**form, "server_callback_url": self.callback_url()}, store, seconds)
        if found.next in ("refunded", "not-refunded", "send-again", "fix"):
            del refunds[client_orderid]
        return found

    def callback_url(self):
        return f"http://127.0.0.1:{self.server.server_port}/callback"

    def callback(self, received):
        found = countersign.callback(received, stored)
        self.report(found, found.found)
        self.respond(found.respond_with)
        # The gateway does not repeat what it got 200 for. Of an order that is not the shop's, anyone can send one.
        if found.respond_with == 200 and found.found.next == "query" and stored(found.order["client_orderid"]):
            self.report(found, self.until_decided(found.order))

    def report(self, callback, found):
        about = f": {json.dumps(callback.order['client_orderid'])} is {found.next}: {found.row}" if found else ""
        print(f"{callback.result}{about}", flush=True)
        if found:
            self.settle(callback.order["client_orderid"], found)

    def respond(self, status, text=""):
        self.send_response(status)
        body = text.encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def stored(client_orderid):
    """An order of the shop. One that is for a person is none: the payment of its ID is another."""
    return {} if unprocessed.get(client_orderid) == "ask-support" else orders.get(client_orderid, {})


if __name__ == "__main__":
    url, *others = sys.argv[1:]
    port, seconds = (int(other) for other in others + ["0", "900"][len(others) :])
    orders, settled = {}, {}
    unprocessed = {}  # what to do about those that were not processed
    refunds = {}  # those that are not decided, with the serial number of each, by order
    countersign = Countersign(url, login="acme", endpoint="1234")  # those of the demo
    server = ThreadingHTTPServer(("127.0.0.1", port), Shop)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
