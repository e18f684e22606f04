"""A shop that uses the client. Run with: python3 main.py http://127.0.0.1:8080/sandbox/gw [PORT [SECONDS]]

Then: curl -d client_orderid=order-7 -d amount=12.50 -d currency=EUR http://127.0.0.1:PORT/pay

It has no key and no secret. A real one stores its orders in a database, and authenticates those who may pay and refund.
"""

import json
import sys
import urllib.parse
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from countersign import Countersign


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
            self.respond(200, " ".join(filter(None, about)) + "\n")
        else:
            self.respond(404)

    def pay(self, form):
        """A real shop stores the order, and when it was sent, before this."""
        order = {name: form.get(name, "") for name in ("client_orderid", "amount", "currency")}
        orders[order["client_orderid"]] = order
        form["server_callback_url"] = f"http://127.0.0.1:{self.server.server_port}/callback"
        sent = countersign.send("v4/transfer", form)
        if sent.next != "query":
            return sent
        if sent.order_id:
            order["orderid"] = sent.order_id
        # A real shop shows it to the payer. It does not prove that there is no order.
        if message := sent.fields.get("error-message"):
            print(json.dumps(message), flush=True)
        return countersign.until_decided(order, seconds)

    def refund(self, form):
        """Only its serial number tells the status of a refund from that of another one. A real shop stores it."""
        form["server_callback_url"] = f"http://127.0.0.1:{self.server.server_port}/callback"
        sent = countersign.send("v2/return", form)
        serial_number = sent.fields.get("serial-number")
        if sent.next != "query":
            return sent
        if not serial_number:
            return replace(sent, next="ask-support")
        ids = {name: form.get(name, "") for name in ("client_orderid", "orderid")}
        return countersign.until_decided({**ids, "by-request-sn": serial_number}, seconds)

    def callback(self, received):
        found = countersign.callback(received, lambda client_orderid: orders.get(client_orderid, {}))
        self.report(found, found.found)
        self.respond(found.respond_with)
        # The gateway does not repeat what it got 200 for. Of an order that is not the shop's, anyone can send one.
        if found.respond_with == 200 and found.found.next == "query" and found.order["client_orderid"] in orders:
            self.report(found, countersign.until_decided(found.order, seconds))

    def report(self, callback, found):
        """A real shop acts on it here, once: the same callback may come again."""
        about = f": {json.dumps(callback.order['client_orderid'])} is {found.next}: {found.row}" if found else ""
        print(f"{callback.result}{about}", flush=True)

    def respond(self, status, text=""):
        self.send_response(status)
        body = text.encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    url, *others = sys.argv[1:]
    port, seconds = (int(other) for other in others + ["0", "900"][len(others) :])
    orders = {}
    countersign = Countersign(url, login="acme", endpoint="1234")  # those of the demo
    server = ThreadingHTTPServer(("127.0.0.1", port), Shop)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
