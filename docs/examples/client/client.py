# A client of Countersign. Run with: python3 client.py http://127.0.0.1:8080/sandbox/gw ORDER_ID
import http.client
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

BASE = sys.argv[1]
ORDER_ID = sys.argv[2] if len(sys.argv) > 2 else "order-1"
LOGIN = "acme"


def post(path, **form):
    """Posts an unsigned form. A network error says nothing about the outcome, so it counts as unknown."""
    headers = {"Accept": "application/json"}  # and Authorization: Bearer <token>
    body = urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(BASE + path, body, headers, method="POST")
    try:
        try:
            response = urllib.request.urlopen(request, timeout=35)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            return response.status, response.headers.get("Countersign-Outcome", "unknown"), response.read()
    except (OSError, http.client.HTTPException):
        return 0, "unknown", b""


def order_status(path, order_id):
    status, _, body = post(path, login=LOGIN, client_orderid=order_id)
    try:
        return json.loads(body).get("status") if status == 200 else None
    except ValueError:
        return None  # The response of the gateway is not a form.


def transfer(order_id, amount, currency):
    """Sends a payment once, and finds out what became of it."""
    form = {"client_orderid": order_id, "amount": amount, "currency": currency}
    status, outcome, body = post("/api/v4/transfer/1234", **form)
    if outcome == "not-sent":
        return "not sent, may be sent again: " + json.loads(body)["reason"]
    if outcome == "answered" and status < 500 and status != 200:
        return f"rejected with {status}"
    # Made, or perhaps made (unknown, or a 5xx of the gateway): the status decides. Never resubmit under a new ID.
    for attempt in range(5):
        found = order_status("/api/v4/status/1234", order_id)
        if found not in (None, "error"):
            return found
        time.sleep(0.5 * 2**attempt)
    return "unresolved: query the status again later"


print("manager-balance:", post(f"/api/v2/get-balance/manager/{LOGIN}")[0])
print("order-status:", order_status("/api/v4/status/1234", "invoice-1"))
print("order-status-group:", order_status("/api/v4/status/group/77", "invoice-1"))
print("pan-eligibility-send:", post("/api/v2/pan-eligibility/send/1234")[0])
print(f"transfer {ORDER_ID}:", transfer(ORDER_ID, "12.50", "EUR"))
