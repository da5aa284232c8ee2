package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// profile starts a CPU profile in path.cpu and returns what ends it and adds path.heap. An empty path does nothing.
func profile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("no directory for the profiles: %w", err)
	}
	cpu, err := os.Create(path + ".cpu")
	if err != nil {
		return nil, fmt.Errorf("no CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(fmt.Errorf("no CPU profile: %w", err), cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(cpu.Close(), heap(path+".heap"))
	}, nil
}

func heap(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("no heap profile: %w", err)
	}
	runtime.GC()
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
