package cli

import (
	"net/http"
	"net/http/pprof"

	"github.com/millrace-io/millrace/query/httpapi"
)

// profiles serves Go's profiles below /debug/pprof/ in front of next, for callers who may operate or, where callers are not told
// apart, who are on this machine: a profile shows what the program is, and taking one costs it time.
func profiles(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		mux.HandleFunc("/debug/pprof/"+path, httpapi.Guard(httpapi.MayOperate, func(w http.ResponseWriter, r *http.Request) {
			if err := httpapi.Permit(r); err != nil {
				http.Error(w, "profiles are for who may give orders: "+err.Error(), http.StatusForbidden)
				return
			}
			h(w, r)
		}))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
