// Command tokenworks-gateway-load sends chat requests to one address and says how long they took.
//
// It writes prepared bytes to kept-alive connections and reads answers where they are needed, so
// that it costs little beside what it measures; its own processor time is part of its report.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Set by the linker.
var version string

type options struct {
	address     string
	name        string
	ca          string
	headers     string
	body        string
	path        string
	connections int
	seconds     float64
	hold        bool
	ramp        int
}

type report struct {
	Requests    int        `json:"requests"`
	Errors      int        `json:"errors"`
	FirstError  string     `json:"first_error,omitempty"`
	Events      int        `json:"events"`
	Seconds     float64    `json:"seconds"`
	CPUSeconds  float64    `json:"cpu_seconds"`
	FirstToken  percentile `json:"first_token_ms"`
	InterToken  percentile `json:"inter_token_ms"`
	Whole       percentile `json:"whole_ms"`
	MostAtATime int        `json:"most_at_a_time"`
}

func main() {
	var o options
	flag.StringVar(&o.address, "address", "", "host:port to connect to")
	flag.StringVar(&o.name, "name", "", "the server's name in its certificate; empty is plain HTTP")
	flag.StringVar(&o.ca, "ca", "", "file with the authority that signed it")
	flag.StringVar(&o.headers, "headers", "", "file with one header a line, such as the key")
	flag.StringVar(&o.body, "body", "", "file with the body of every request")
	flag.StringVar(&o.path, "path", "/v1/chat/completions", "path of every request")
	flag.IntVar(&o.connections, "connections", 1, "connections, each with one request at a time")
	flag.Float64Var(&o.seconds, "seconds", 5, "how long to go on sending")
	flag.BoolVar(&o.hold, "hold", false, "one request for each connection, all at the same time")
	flag.IntVar(&o.ramp, "ramp", 500, "with -hold, connections opened in a second")
	show := flag.Bool("version", false, "print the version and stop")
	flag.Parse()
	if *show {
		fmt.Println("gateway-load", version)
		return
	}
	result, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		os.Exit(1)
	}
}

func run(o options) (report, error) {
	request, err := prepared(o)
	if err != nil {
		return report{}, err
	}
	config, err := trust(o)
	if err != nil {
		return report{}, err
	}
	results := make([]measured, o.connections)
	var group sync.WaitGroup
	var open gauge
	begun := time.Now()
	until := begun.Add(time.Duration(o.seconds * float64(time.Second)))
	for index := range results {
		if o.hold && index > 0 && index%max(1, o.ramp/20) == 0 {
			time.Sleep(50 * time.Millisecond)
		}
		group.Go(func() {
			dial := func() (net.Conn, error) { return connect(o.address, config) }
			if o.hold {
				results[index].hold(dial, request, &open)
				return
			}
			results[index].repeat(dial, request, until)
		})
	}
	group.Wait()
	all := merged(results)
	all.Seconds = time.Since(begun).Seconds()
	all.CPUSeconds = ownSeconds()
	all.MostAtATime = open.most()
	return all, nil
}

func prepared(o options) ([]byte, error) {
	body, err := os.ReadFile(o.body)
	if err != nil {
		return nil, err
	}
	lines := []string{
		"POST " + o.path + " HTTP/1.1",
		"host: " + o.address,
		"content-type: application/json",
		fmt.Sprintf("content-length: %d", len(body)),
	}
	if o.name != "" {
		_, port, err := net.SplitHostPort(o.address)
		if err != nil {
			return nil, err
		}
		lines[1] = "host: " + net.JoinHostPort(o.name, port)
	}
	if o.headers != "" {
		given, err := os.ReadFile(o.headers)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(given)) {
			if header := strings.TrimSpace(line); header != "" {
				lines = append(lines, header)
			}
		}
	}
	head := strings.Join(lines, "\r\n")
	return append([]byte(head+"\r\n\r\n"), body...), nil
}

func trust(o options) (*tls.Config, error) {
	if o.name == "" {
		return nil, nil
	}
	authority, err := os.ReadFile(o.ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", o.ca)
	}
	return &tls.Config{RootCAs: pool, ServerName: o.name, NextProtos: []string{"http/1.1"}}, nil
}

func connect(address string, config *tls.Config) (net.Conn, error) {
	raw, err := net.DialTimeout("tcp", address, 30*time.Second)
	if err != nil || config == nil {
		return raw, err
	}
	secure := tls.Client(raw, config)
	if err := secure.Handshake(); err != nil {
		raw.Close()
		return nil, err
	}
	return secure, nil
}

func ownSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}
