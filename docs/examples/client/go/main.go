// A shop that uses the client. Run with: go run . http://127.0.0.1:8080/sandbox/gw [PORT [SECONDS]]
// Then: curl -d client_orderid=order-7 -d amount=12.50 -d currency=EUR http://127.0.0.1:PORT/pay
// It has no key and no secret. A real one stores its orders in a database, and authenticates those who may pay and refund.
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
	"sync"
	"time"

	"example/shop/countersign"
)

type shop struct {
	client      *countersign.Client
	url         string
	patience    time.Duration
	orders      sync.Map
	settled     sync.Map
	refunds     sync.Map // those that are not decided, with the serial number of each, by order
	unprocessed sync.Map // what to do about those that were not processed
}

// An order of the shop. One that is for a person is none: the payment of its ID is another.
func (s *shop) stored(id string) url.Values {
	if next, _ := s.unprocessed.Load(id); next == countersign.AskSupport {
		return nil
	}
	order, _ := s.orders.Load(id)
	values, _ := order.(url.Values)
	return values
}

// A real shop stores the order, and when it was sent, before this.
func (s *shop) pay(ctx context.Context, form url.Values) countersign.Response {
	id := form.Get("client_orderid")
	order := url.Values{"client_orderid": {id}, "amount": form["amount"], "currency": form["currency"]}
	if _, isKnown := s.orders.LoadOrStore(id, order); isKnown {
		if s.stored(id).Encode() != order.Encode() {
			return countersign.Response{Next: countersign.AskSupport, Row: "order ID reused"}
		}
		// What was begun is only queried. What was not processed is sent again, unless a callback has settled it.
		_, isSettled := s.settled.Load(id)
		if _, isUnprocessed := s.unprocessed.LoadAndDelete(id); isSettled || !isUnprocessed {
			return s.untilDecided(ctx, order)
		}
	}
	form.Set("server_callback_url", s.url+"/callback")
	sent := s.client.Pay(ctx, "v4/transfer", form)
	if sent.Next != countersign.Query {
		s.unprocessed.Store(id, sent.Next)
		return sent
	}
	// A real shop shows it to the payer. It does not prove that there is no order.
	if message := sent.Fields["error-message"]; message != "" {
		fmt.Printf("%q\n", message)
	}
	return s.untilDecided(ctx, order)
}

func (s *shop) untilDecided(ctx context.Context, order url.Values) countersign.Response {
	found := s.client.UntilDecided(ctx, order, s.patience)
	s.settle(order.Get("client_orderid"), found)
	return found
}

// A real shop delivers here, or not: once for each order, whatever comes first or again. The control of a callback is no
// key for that: a refund has the one of its payment.
func (s *shop) settle(id string, found countersign.Response) {
	if s.stored(id) == nil || found.Next != countersign.Paid && found.Next != countersign.NotPaid {
		return
	}
	if _, isSettled := s.settled.LoadOrStore(id, found.Next); !isSettled {
		fmt.Printf("settled: %q is %s\n", id, found.Next)
	}
}

// One at a time of an order. A real shop gives each refund an ID of its own, stores it, and sends one ID once.
func (s *shop) refund(ctx context.Context, form url.Values) countersign.Response {
	id := form.Get("client_orderid")
	if _, isKnown := s.refunds.LoadOrStore(id, ""); isKnown {
		return countersign.Response{Next: countersign.AskSupport, Row: "a refund is not decided"}
	}
	form.Set("server_callback_url", s.url+"/callback")
	store := func(serialNumber string) { s.refunds.Store(id, serialNumber) }
	found := s.client.Refund(ctx, form, store, s.patience)
	switch found.Next {
	case countersign.Refunded, countersign.NotRefunded, countersign.SendAgain, countersign.Fix:
		s.refunds.Delete(id)
	}
	return found
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
	// What is begun goes on without the gateway's request.
	ctx := context.WithoutCancel(request.Context())
	found := s.client.Callback(ctx, received, s.stored)
	if found.Found == nil {
		fmt.Println(found.Result)
	} else {
		s.report(found, *found.Found)
	}
	response.WriteHeader(found.RespondWith)
	// The gateway does not repeat what it got 200 for. Of an order that is not the shop's, anyone can send one.
	if found.RespondWith == 200 && found.Found.Next == countersign.Query && s.stored(found.Order.Get("client_orderid")) != nil {
		go func() { s.report(found, s.untilDecided(ctx, found.Order)) }()
	}
}

func (s *shop) report(callback countersign.Callback, found countersign.Response) {
	id := callback.Order.Get("client_orderid")
	fmt.Printf("%s: %q is %s: %s\n", callback.Result, id, found.Next, found.Row)
	s.settle(id, found)
}

func handle(command func(context.Context, url.Values) countersign.Response) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		if err := request.ParseForm(); err != nil {
			http.Error(response, err.Error(), 400)
			return
		}
		// A payer who closes the page does not end the payment.
		found := command(context.WithoutCancel(request.Context()), request.PostForm)
		about := cmp.Or(found.OrderID, found.Reason)
		fmt.Fprintf(response, "%s: %s %s %s\n", found.Next, found.Row, about, found.Message)
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
