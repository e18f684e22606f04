// Run with: go test payments_test.go
package payments

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var api string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "payments-")
	if err != nil {
		panic(err)
	}
	readyFile := filepath.Join(folder, "ready.json")
	demo := exec.Command("countersign", "demo", "--port", "0", "--ready-file", readyFile)
	if err := demo.Start(); err != nil {
		panic(err)
	}
	api = waitFor(readyFile) + "/sandbox/gw/api"
	code := m.Run()
	demo.Process.Signal(os.Interrupt)
	demo.Wait()
	os.RemoveAll(folder)
	os.Exit(code)
}

// waitFor returns the URL of the proxy.
func waitFor(readyFile string) string {
	for range 1200 {
		if content, err := os.ReadFile(readyFile); err == nil {
			var ready struct{ ProxyURL string }
			if err := json.Unmarshal(content, &ready); err != nil {
				panic(err)
			}
			return ready.ProxyURL
		}
		time.Sleep(50 * time.Millisecond)
	}
	panic("the demo did not start")
}

func post(t *testing.T, path string, form url.Values) *http.Response {
	t.Helper()
	response, err := http.PostForm(api+path, form)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// finalStatus is what the order is when it is no longer in progress.
func finalStatus(t *testing.T, id string) string {
	t.Helper()
	for {
		body, err := io.ReadAll(post(t, "/v4/status/1234", url.Values{"login": {"acme"}, "client_orderid": {id}}).Body)
		if err != nil {
			t.Fatal(err)
		}
		// A line feed follows each value.
		fields, err := url.ParseQuery(strings.ReplaceAll(string(body), "\n", ""))
		if err != nil {
			t.Fatal(err)
		}
		if status := fields.Get("status"); status != "processing" {
			return status
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func TestTransferIsApproved(t *testing.T) {
	form := url.Values{"client_orderid": {"order-1"}, "amount": {"12.50"}, "currency": {"EUR"}}
	if outcome := post(t, "/v4/transfer/1234", form).Header.Get("Countersign-Outcome"); outcome != "answered" {
		t.Error(outcome)
	}
	if status := finalStatus(t, "order-1"); status != "approved" {
		t.Error(status)
	}
}

func TestTransferOfUnknownOutcomeCanBeApproved(t *testing.T) {
	// The scenario of the simulator loses the response to this order.
	form := url.Values{"client_orderid": {"lost-response"}, "amount": {"1.00"}, "currency": {"EUR"}}
	if outcome := post(t, "/v4/transfer/1234", form).Header.Get("Countersign-Outcome"); outcome != "unknown" {
		t.Error(outcome)
	}
	if status := finalStatus(t, "lost-response"); status != "approved" {
		t.Error(status)
	}
}
