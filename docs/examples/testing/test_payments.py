# Run with: python3 -m unittest test_payments.py
import json
import pathlib
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request


def post(url, headers=None, **form):
    body = urllib.parse.urlencode(form).encode()
    try:
        return urllib.request.urlopen(urllib.request.Request(url, body, headers or {}), timeout=35)
    except urllib.error.HTTPError as response:
        return response


class PaymentsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        ready_file = pathlib.Path(cls.folder.name, "ready.json")
        command = ["countersign", "demo", "--port", "0", "--ready-file", str(ready_file)]
        cls.demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not ready_file.exists():
            if cls.demo.poll() is not None:
                raise RuntimeError("the demo did not start")
            time.sleep(0.05)
        cls.api = json.loads(ready_file.read_text())["proxyUrl"] + "/sandbox/gw/api"

    @classmethod
    def tearDownClass(cls):
        cls.demo.terminate()
        cls.demo.wait()
        cls.folder.cleanup()

    def final_status(self, client_orderid):
        """What the order is when it is no longer in progress."""
        while True:
            order = {"login": "acme", "client_orderid": client_orderid}
            with post(f"{self.api}/v4/status/1234", {"Accept": "application/json"}, **order) as response:
                status = json.load(response)["status"]
            if status != "processing":
                return status
            time.sleep(0.2)

    def test_transfer_is_approved(self):
        with post(f"{self.api}/v4/transfer/1234", client_orderid="order-1", amount="12.50", currency="EUR") as response:
            self.assertEqual(response.headers["Countersign-Outcome"], "answered")
        self.assertEqual(self.final_status("order-1"), "approved")

    def test_transfer_of_unknown_outcome_can_be_approved(self):
        # The scenario of the simulator loses the response to this order.
        with post(f"{self.api}/v4/transfer/1234", client_orderid="lost-response", amount="1.00", currency="EUR") as response:
            self.assertEqual(response.headers["Countersign-Outcome"], "unknown")
        self.assertEqual(self.final_status("lost-response"), "approved")
