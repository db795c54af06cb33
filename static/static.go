// Package static owns the files a browser fetches beside the pages: our style sheets and script, the logo and the
// vendored htmx. They are embedded, served under names that carry a hash of their content and cached for ever.
// It refuses everything else: it reads no disk, knows no page, and answers only names that it printed itself.
package static

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Prefix is the URL path under which Handler expects to be mounted.
const Prefix = "/static/"

//go:embed css/*.css app.js keys.js log.js times.js *.svg vendor/htmx.min.js vendor/hx-sse.min.js vendor/LICENSE-htmx.txt
var embedded embed.FS

type asset struct {
	body        []byte
	contentType string
}

type table struct {
	urls   map[string]string // logical name → URL with hash
	assets map[string]asset  // hashed file name → content
}

// load computes hashes once per process: the embedded files cannot change while it runs.
var load = sync.OnceValue(func() table {
	t := table{urls: map[string]string{}, assets: map[string]asset{}}
	t.add("app.css", stylesheet())
	for _, file := range []string{"app.js", "keys.js", "log.js", "times.js", "logo.svg", "favicon.svg", "vendor/htmx.min.js", "vendor/hx-sse.min.js", "vendor/LICENSE-htmx.txt"} {
		body, err := embedded.ReadFile(file)
		if err != nil {
			panic("static: embedded file missing: " + file) // the go:embed line above guarantees it at build time
		}
		if path.Ext(file) == ".js" && !strings.HasPrefix(file, "vendor/") {
			body = lean(body)
		}
		t.add(path.Base(file), body)
	}
	return t
})

// lean leaves out what is for the reader of our scripts alone: indentation, empty lines and lines of comment. A text of several lines
// would suffer; a test holds that there is none.
func lean(script []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(script) {
		if line = bytes.TrimLeft(line, " \t\n"); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			out.Write(line)
		}
	}
	return out.Bytes()
}

// stylesheet joins the parts in name order; cascade layers, not order, decide between them.
func stylesheet() []byte {
	names, err := fs.Glob(embedded, "css/*.css")
	if err != nil {
		panic("static: bad pattern: " + err.Error())
	}
	slices.Sort(names)
	var all bytes.Buffer
	for _, name := range names {
		body, err := embedded.ReadFile(name)
		if err != nil {
			panic("static: embedded file missing: " + name)
		}
		all.Write(body)
		all.WriteByte('\n')
	}
	return all.Bytes()
}

func (t table) add(name string, body []byte) {
	sum := sha256.Sum256(body)
	ext := path.Ext(name)
	hashed := strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
	t.urls[name] = Prefix + hashed
	t.assets[hashed] = asset{body: body, contentType: contentType(ext)}
}

// contentType is a closed list, so that a host's mime table cannot change what we serve.
func contentType(ext string) string {
	switch ext {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		return "text/plain; charset=utf-8"
	}
}

// Names lists the logical names that URL accepts, sorted.
func Names() []string {
	names := make([]string, 0, len(load().urls))
	for name := range load().urls {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// URL returns the content-hashed path of a logical name such as "app.css". An unknown name is a programming mistake
// and yields a path that answers 404; a test of this package checks every name the pages use.
func URL(name string) string {
	if url, ok := load().urls[name]; ok {
		return url
	}
	return Prefix + "missing/" + name
}

// Handler serves the hashed names with a year of immutable caching, and 404 for anything else. Mount it at Prefix.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "Only GET and HEAD are answered here.", http.StatusMethodNotAllowed)
			return
		}
		a, ok := load().assets[strings.TrimPrefix(r.URL.Path, Prefix)]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", a.contentType)
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	})
}
