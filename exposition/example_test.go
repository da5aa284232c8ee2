package exposition_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/millrace-io/millrace/exposition"
)

// An exposition is a MeterProvider for whoever wants to measure something, and shows it over HTTP.
func Example() {
	shown, err := exposition.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shown.Close()
	orders, err := shown.Meter("shop").Int64Counter("shop.orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	orders.Add(context.Background(), 3)

	w := httptest.NewRecorder()
	shown.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "shop") {
			fmt.Println(lines.Text())
		}
	}
	// Output: shop_orders_total 3
}

// Traces is a TracerProvider that sends spans to a collector; here one that counts requests.
func ExampleTraces() {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("spans at", r.URL.Path)
	}))
	defer collector.Close()
	traces, err := exposition.NewTraces(exposition.TracesConfig{Endpoint: collector.URL, Ratio: 1, Service: "shop", Instance: "shop-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, span := traces.Tracer("shop").Start(context.Background(), "sell")
	span.End()
	traces.Close(context.Background())
	// Output: spans at /v1/traces
}
