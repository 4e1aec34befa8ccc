package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// patience is how long nothing may come before a request counts as lost.
const patience = 120 * time.Second

type percentile struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// measured is what one connection saw; times in milliseconds.
type measured struct {
	first, gaps, whole       []float64
	requests, errors, events int
	problem                  error
}

// gauge counts what is open now and remembers the most.
type gauge struct {
	lock      sync.Mutex
	now, peak int
}

func (g *gauge) add(change int) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.now += change
	g.peak = max(g.peak, g.now)
}

func (g *gauge) most() int {
	g.lock.Lock()
	defer g.lock.Unlock()
	return g.peak
}

// repeat sends one request after the other until the time is over.
func (m *measured) repeat(dial func() (net.Conn, error), request []byte, until time.Time) {
	var connection net.Conn
	var reader *bufio.Reader
	for time.Now().Before(until) {
		if connection == nil {
			fresh, err := dial()
			if err != nil {
				m.fail(err)
				time.Sleep(10 * time.Millisecond)
				continue
			}
			connection, reader = fresh, bufio.NewReaderSize(fresh, 16384)
		}
		if err := m.one(connection, reader, request, func() {}); err != nil {
			m.fail(err)
			connection.Close()
			connection = nil
		}
	}
	if connection != nil {
		connection.Close()
	}
}

// hold sends one request and reads its answer to the end.
func (m *measured) hold(dial func() (net.Conn, error), request []byte, open *gauge) {
	connection, err := dial()
	if err != nil {
		m.fail(err)
		return
	}
	defer connection.Close()
	streaming := false
	err = m.one(connection, bufio.NewReaderSize(connection, 4096), request, func() {
		streaming = true
		open.add(1)
	})
	if streaming {
		open.add(-1)
	}
	if err != nil {
		m.fail(err)
	}
}

func (m *measured) fail(err error) {
	m.errors++
	if m.problem == nil {
		m.problem = err
	}
}

// one sends a request and reads its answer; begun is called with the first event.
func (m *measured) one(c net.Conn, reader *bufio.Reader, request []byte, begun func()) error {
	sent := time.Now()
	if err := c.SetDeadline(sent.Add(patience)); err != nil {
		return err
	}
	if _, err := c.Write(request); err != nil {
		return err
	}
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 300))
		return fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	if answer.ContentLength >= 0 {
		_, err = io.Copy(io.Discard, answer.Body)
		m.first = append(m.first, since(sent))
	} else {
		err = m.eventsOf(c, answer.Body, sent, begun)
	}
	if err != nil {
		return err
	}
	m.requests++
	m.whole = append(m.whole, since(sent))
	return nil
}

// eventsOf reads server-sent events up to the mark of their end.
func (m *measured) eventsOf(c net.Conn, body io.Reader, sent time.Time, begun func()) error {
	lines := bufio.NewReaderSize(body, 4096)
	last, done := time.Time{}, false
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && done {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d events: %w", m.events, err)
		}
		if !bytes.HasPrefix(line, []byte("data: ")) {
			continue
		}
		done = bytes.HasPrefix(line, []byte("data: [DONE]"))
		// The first event names a role, and tokens that come in one packet have no gap.
		if done || !bytes.Contains(line, []byte(`"content":`)) {
			continue
		}
		now := time.Now()
		m.events++
		if last.IsZero() {
			m.first = append(m.first, since(sent))
			begun()
		} else {
			m.gaps = append(m.gaps, milliseconds(now.Sub(last)))
		}
		last = now
		if err := c.SetDeadline(now.Add(patience)); err != nil {
			return err
		}
	}
}

func since(start time.Time) float64 { return milliseconds(time.Since(start)) }

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func merged(results []measured) report {
	var all report
	var first, gaps, whole []float64
	for _, each := range results {
		all.Requests += each.requests
		all.Errors += each.errors
		all.Events += each.events
		if each.problem != nil && all.FirstError == "" {
			all.FirstError = each.problem.Error()
		}
		first = append(first, each.first...)
		gaps = append(gaps, each.gaps...)
		whole = append(whole, each.whole...)
	}
	all.FirstToken, all.InterToken, all.Whole = percentiles(first), percentiles(gaps), percentiles(whole)
	return all
}

func percentiles(values []float64) percentile {
	if len(values) == 0 {
		return percentile{}
	}
	slices.Sort(values)
	at := func(share float64) float64 { return values[int(share*float64(len(values)-1))] }
	return percentile{P50: at(0.5), P99: at(0.99)}
}
