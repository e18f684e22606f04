# A client of Countersign. Run with: python3 client.py http://127.0.0.1:8080/sandbox/gw ORDER_ID [SECONDS]
import http.client
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

BASE = sys.argv[1].rstrip("/")
# The product of the environment. The gateway puts it before the names of some fields.
PRODUCT = BASE.rsplit("/", 1)[1]
ORDER_ID = sys.argv[2] if len(sys.argv) > 2 else "order-1"
# Seconds until a person decides about an order that is not final: see docs/payments.md.
PATIENCE = float(sys.argv[3]) if len(sys.argv) > 3 else 900
# Those of the demo.
LOGIN, ENDPOINT, GROUP = "acme", "1234", "77"


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
    """A row of "What the status query says" in docs/payments.md."""
    status, _, body = post(path, login=LOGIN, client_orderid=order_id)
    try:
        fields = json.loads(body) if status == 200 else {}
        found = fields.get("status")
    except (ValueError, AttributeError):
        found = None  # The response of the gateway is not a form.
    if found is None:
        return "no response"
    if found in ("approved", "declined", "filtered", "unknown"):
        return found
    if found != "error":
        return "processing"
    if fields.get("error-code") == "124":
        return "ambiguous"
    return "in error" if f"{PRODUCT}-order-id" in fields else "not found"


def resolve(order_id):
    """Queries the status until it is final, or a person has to decide. Never sends the payment again."""
    deadline = time.monotonic() + PATIENCE
    pause = 1
    while True:
        found = order_status(f"/api/v4/status/{ENDPOINT}", order_id)
        if found in ("approved", "declined", "filtered"):
            return found
        left = deadline - time.monotonic()
        if found in ("ambiguous", "in error", "unknown") or left <= 0:
            return "a person decides: " + found
        time.sleep(min(pause, left))
        pause = min(2 * pause, 60)


def transfer(order_id, amount, currency):
    """Sends a payment once, and finds out what happened to it. A service stores the order ID before it calls this."""
    form = {"client_orderid": order_id, "amount": amount, "currency": currency}
    status, outcome, body = post(f"/api/v4/transfer/{ENDPOINT}", **form)
    # 422: another form was sent under this order ID before. What became of that one?
    if outcome == "not-sent" and status != 422:
        return "not sent, may be sent again under this order ID: " + json.loads(body)["reason"]
    if outcome == "answered" and status in (401, 403):
        return "rejected, may be sent again under this order ID once the cause is fixed"
    return resolve(order_id)


print("manager-balance:", post(f"/api/v2/get-balance/manager/{LOGIN}")[0])
print("order-status:", order_status(f"/api/v4/status/{ENDPOINT}", "invoice-1"))
print("order-status-group:", order_status(f"/api/v4/status/group/{GROUP}", "invoice-1"))
print("pan-eligibility-send:", post(f"/api/v2/pan-eligibility/send/{ENDPOINT}")[0])
print(f"transfer {ORDER_ID}:", transfer(ORDER_ID, "12.50", "EUR"))
