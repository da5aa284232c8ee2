package main

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// listening are the addresses at which a process takes TCP connections or UDP packets, as the kernel has them.
func listening(t *testing.T, pid int) (all []string) {
	t.Helper()
	proc, inodes := filepath.Join("/proc", strconv.Itoa(pid)), map[string]bool{}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, _ := os.Readlink(filepath.Join(proc, "fd", fd.Name())) // one that is closed meanwhile is none
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	// 0A is LISTEN; 07 is what a UDP socket is that is bound to nobody in particular.
	for table, state := range map[string]string{"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"} {
		text, err := os.ReadFile(filepath.Join(proc, "net", table))
		if os.IsNotExist(err) {
			continue // a kernel without IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != state || !inodes[f[9]] {
				continue
			}
			all = append(all, strings.TrimSuffix(table, "6")+" "+kernelAddress(t, f[1]))
		}
	}
	slices.Sort(all)
	return all
}

// kernelAddress reads an address as /proc/net writes it: words of four bytes, each with the last byte
// first on the machines that Millrace is built for, and a port.
func kernelAddress(t *testing.T, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil {
		t.Fatal(text, err, err2)
	}
	for word := range slices.Chunk(b, 4) {
		slices.Reverse(word)
	}
	addr, _ := netip.AddrFromSlice(b)
	return net.JoinHostPort(addr.Unmap().String(), fmt.Sprint(number))
}

// documentedPorts are the commands of the threat model's table, with what they listen on.
func documentedPorts(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "<!-- begin ports -->")
	table, _, _ = strings.Cut(table, "<!-- end ports -->")
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `millrace ([^`]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(table, -1) {
		for word := range strings.SplitSeq(m[2], ",") {
			rows[m[1]] = append(rows[m[1]], strings.Trim(word, " `"))
		}
	}
	if len(rows) != 3 {
		t.Fatalf("the table has %v", rows)
	}
	return rows
}

// A node that runs listens on what docs/threat-model.md says, on loopback, and on nothing else.
func TestNodesListenWhereTheDocumentsSay(t *testing.T) {
	addrs := brokers(t)
	for row, names := range documentedPorts(t) {
		if testing.Short() && row != "run --remote" { // which has both addresses of a node
			continue
		}
		args := strings.Fields(row)
		if args[0] == "run" {
			app := "ports" + strconv.Itoa(len(args))
			create(t, addrs, nil, linesTopic(app), outputTopic(app))
			args = append([]string{"run", "--brokers", addrs, "--app", app, "--state-dir", t.TempDir()}, args[1:]...)
		}
		if slices.Contains(names, "--remote") {
			args = append(args, "127.0.0.1:0")
		}
		p := begin(t, "demo", args...)
		p.base() // it says where it is
		out, _ := p.out.read()
		said := map[string]*regexp.Regexp{"--listen": regexp.MustCompile(`http://([0-9.:]+)`), "--remote": regexp.MustCompile(`Other processes:  (\S+)`),
			"Kafka": regexp.MustCompile(`Embedded Kafka, in memory, on (.*)\.\n`)}
		var want []string
		for _, name := range names {
			m := said[name].FindStringSubmatch(out)
			if m == nil {
				t.Fatalf("%s does not say its %s", row, name)
			}
			for addr := range strings.SplitSeq(m[1], ", ") {
				want = append(want, "tcp "+addr)
			}
		}
		slices.Sort(want)
		got := listening(t, p.cmd.Process.Pid)
		if !slices.Equal(got, want) {
			t.Errorf("%s listens on %v, and the documents say %v", row, got, want)
		}
		for _, addr := range got {
			if !strings.HasPrefix(addr, "tcp 127.0.0.1:") {
				t.Errorf("%s listens on %s by default", row, addr)
			}
		}
		p.end()
	}
}
