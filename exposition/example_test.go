package exposition_test

import (
	"bufio"
	"context"
	"fmt"
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
