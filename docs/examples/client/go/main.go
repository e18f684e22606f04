// A shop that uses the client. Run with: go run . http://127.0.0.1:8080/sandbox/gw [PORT [SECONDS]]
// It has no key and no secret. A real one stores its orders, and authenticates those who may pay and refund.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"example/shop/countersign"
)

type shop struct {
	client   *countersign.Client
	url      string
	patience time.Duration
}

// A real shop stores the order ID, and when it was sent, before this.
func (s *shop) pay(ctx context.Context, form url.Values) countersign.Response {
	form.Set("server_callback_url", s.url+"/callback")
	sent := s.client.Send(ctx, "v4/transfer", form)
	if sent.Next != countersign.Query {
		return sent
	}
	return s.client.UntilDecided(ctx, url.Values{"client_orderid": form["client_orderid"]}, s.patience)
}

// Only its serial number tells the status of a refund from that of the payment.
func (s *shop) refund(ctx context.Context, form url.Values) countersign.Response {
	sent := s.client.Send(ctx, "v2/return", form)
	if sent.Next != countersign.Query {
		return sent
	}
	serialNumber := sent.Fields["serial-number"]
	if serialNumber == "" {
		sent.Next = countersign.AskSupport
		return sent
	}
	order := url.Values{
		"client_orderid": form["client_orderid"],
		"orderid":        form["orderid"],
		"by-request-sn":  {serialNumber},
	}
	return s.client.UntilDecided(ctx, order, s.patience)
}

// The gateway sends a callback by GET, and a payer's browser a redirect by POST.
func (s *shop) callback(response http.ResponseWriter, request *http.Request) {
	received := request.URL.RawQuery
	if request.Method == "POST" {
		body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, 65536))
		if err != nil {
			http.Error(response, err.Error(), 400)
			return
		}
		received = string(body)
	}
	found := s.client.Callback(request.Context(), received)
	response.WriteHeader(found.RespondWith)
	if found.Order == nil {
		fmt.Println(found.Result)
		return
	}
	fmt.Printf("%s: %q is %s: %s\n", found.Result, found.ID, found.Order.Next, found.Order.Row)
}

func handle(command func(context.Context, url.Values) countersign.Response) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		if err := request.ParseForm(); err != nil {
			http.Error(response, err.Error(), 400)
			return
		}
		// A payer who closes the page does not end the payment.
		found := command(context.WithoutCancel(request.Context()), request.PostForm)
		fmt.Fprintf(response, "%s: %s %s\n", found.Next, found.Row, cmp.Or(found.OrderID, found.Reason))
	}
}

func argument(index int, otherwise string) string {
	if index < len(os.Args) {
		return os.Args[index]
	}
	return otherwise
}

func main() {
	seconds, err := strconv.Atoi(argument(3, "900"))
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+argument(2, "0"))
	if err != nil {
		panic(err)
	}
	s := &shop{
		client:   &countersign.Client{URL: os.Args[1], Login: "acme", Endpoint: "1234"}, // those of the demo
		url:      "http://" + listener.Addr().String(),
		patience: time.Duration(seconds) * time.Second,
	}
	http.HandleFunc("POST /pay", handle(s.pay))
	http.HandleFunc("POST /refund", handle(s.refund))
	http.HandleFunc("/callback", s.callback)
	fmt.Println(s.url)
	panic(http.Serve(listener, nil))
}
