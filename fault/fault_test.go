package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/millrace-io/millrace/fault"
)

func TestNoHookIsNoFault(t *testing.T) {
	if err := fault.Hook(nil).At(fault.Site{Point: fault.ThreadPoll}); err != nil {
		t.Error(err)
	}
}

func TestPointsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[fault.Point]bool{}
	for _, p := range fault.Points() {
		if p == "" || seen[p] {
			t.Errorf("%q is there twice, or empty", p)
		}
		seen[p] = true
	}
}

func ExampleHook() {
	broken := fault.Hook(func(s fault.Site) error {
		if s.Point == fault.StoreGet && s.Store == "counts" {
			return errors.New("the disk is gone")
		}
		return nil
	})
	fmt.Println(broken.At(fault.Site{Point: fault.StoreGet, Store: "counts"}))
	fmt.Println(broken.At(fault.Site{Point: fault.StorePut, Store: "counts"}))
	// Output:
	// the disk is gone
	// <nil>
}
