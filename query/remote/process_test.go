package remote_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/query"
)

// child starts this test binary as a node and returns its address.
func child(t *testing.T) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"=node")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(line)
}

func getOnce(t *testing.T, address string) (string, bool, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return query.Get(ctx, dial(t, "", []string{address}), counts, "word", query.Partition(0))
}

// patience is how long anything may take before a test gives up, and how much later than its deadline a question may end:
// one that nothing ends is later than that, and the machine of a test may be busy.
const patience = time.Minute

// Many ask without a pause while the other process is stopped, and later killed: each question ends in a value or a typed
// failure, in time.
func TestStoppedAndKilledProcess(t *testing.T) {
	for _, scheme := range schemes {
		cmd, address := child(t)
		c := dial(t, scheme, []string{address})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		kinds := map[query.Kind]int{}
		var mu sync.Mutex
		heard := sync.NewCond(&mu)
		ask := func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 300*time.Millisecond)
			defer cancel()
			v, found, err := query.Get(ctx, c, counts, "word", query.Partition(0))
			deadline, _ := ctx.Deadline()
			if late := time.Since(deadline); late > patience {
				t.Errorf("%q: %s late: %v", scheme, late, err)
			}
			f := (*query.Failure)(nil)
			kind := query.Kind(0)
			switch {
			case errors.As(err, &f):
				kind = f.Kind
			case err != nil || v != "word" || !found:
				t.Errorf("%q: %q, %t, %v", scheme, v, found, err)
			}
			mu.Lock()
			kinds[kind]++
			mu.Unlock()
			heard.Broadcast()
		}
		for range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					ask()
				}
			})
		}
		await := func(ks ...query.Kind) {
			mu.Lock()
			defer mu.Unlock()
			clear(kinds)
			for n := 0; n < 20; {
				heard.Wait()
				n = 0
				for _, k := range ks {
					n += kinds[k]
				}
			}
		}
		signal := func(s os.Signal) {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		await(0)
		signal(syscall.SIGSTOP)
		await(query.DeadlineExceeded)
		signal(syscall.SIGCONT)
		await(0)
		signal(syscall.SIGKILL)
		await(query.StreamThreadNotRunning)
		cancel()
		wg.Wait()
	}
}
